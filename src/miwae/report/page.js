"use strict";
// Search and sorting of the columns: the lines of the overview and the cards are kept in step.
const lists = [document.querySelector("#overview tbody"), document.querySelector("#cards")];
const search = document.querySelector("#search");

function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const list of lists) {
    for (const item of list.children) {
      const { name, kind, verdict } = item.dataset;
      const text = `${name} ${kind} ${verdict}`.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      found += list === lists[0] && !item.hidden;
    }
  }
  const total = lists[0].children.length;
  document.querySelector("#found").textContent = words.length ? `${found} of ${total} columns` : "";
}

function compare(key, sign, a, b) {
  const [x, y] = [a.dataset[key], b.dataset[key]];
  if (["name", "kind", "verdict"].includes(key)) return sign * x.localeCompare(y, undefined, { numeric: true });
  // Columns without a number come last in either order.
  if (x === "" || y === "") return (x === "") - (y === "");
  return sign * (x - y);
}

function sort(button) {
  const heading = button.parentElement;
  const key = button.dataset.sort;
  // What is most missing comes first, everything else in its own order.
  const first = key === "missing" ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = heading.getAttribute("aria-sort") === first ? other : first;
  for (const one of heading.parentElement.children) one.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  for (const list of lists) {
    const items = [...list.children].sort((a, b) => compare(key, sign, a, b) || a.dataset.order - b.dataset.order);
    list.append(...items);
  }
}

search.addEventListener("input", show);
for (const button of document.querySelectorAll("[data-sort]")) button.addEventListener("click", () => sort(button));
