import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from miwae._threads import WORKERS, meanwhile, one_thread_each, side_by_side


def test_results_come_in_the_order_of_the_tasks():
    def task(i):
        def work(check):
            time.sleep(0.02 * (5 - i))
            check()
            return i

        return work

    assert side_by_side([task(i) for i in range(5)]) == list(range(5))


def test_tasks_run_at_the_same_time():
    meeting = threading.Barrier(WORKERS, timeout=10)  # breaks unless all of them come
    assert sorted(side_by_side([lambda check: meeting.wait()] * WORKERS)) == list(range(WORKERS))


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_linear_algebra_keeps_to_its_thread_while_anyone_asks_for_it():
    with threadpool_limits(2, user_api="blas"):  # however many cores there are
        with one_thread_each():
            with one_thread_each():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with pytest.raises(ZeroDivisionError), one_thread_each():
            raise ZeroDivisionError
        assert blas_threads() == {2}


def test_who_leaves_last_does_not_keep_linear_algebra_limited():
    inside, leave = threading.Event(), threading.Event()

    def another():
        with one_thread_each():
            inside.set()
            leave.wait(10)

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=another)
        with one_thread_each():
            thread.start()
            assert inside.wait(10)
        leave.set()
        thread.join()
        assert blas_threads() == {2}
        with one_thread_each():
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_a_failure_ends_the_others_and_is_raised_itself():
    started, turns = threading.Event(), []

    def fails(check):
        started.wait(10)
        raise ZeroDivisionError

    def goes_on(check):
        started.set()
        for turn in range(1_000):
            turns.append(turn)
            time.sleep(0.01)
            check()

    never = []
    with pytest.raises(ZeroDivisionError):
        side_by_side([goes_on, fails, *[lambda check: never.append(1)] * 3])
    assert len(turns) < 1_000
    assert len(never) < 3


def test_a_single_task_stays_in_its_thread():
    assert side_by_side([lambda check: threading.current_thread()]) == [threading.main_thread()]


def test_what_runs_meanwhile_has_ended_with_the_context_and_its_failure_is_raised():
    done = []
    with meanwhile(lambda: (time.sleep(0.05), done.append(1))):
        assert not done
    assert done == [1]

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), meanwhile(fails):
        pass
