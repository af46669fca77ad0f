"use strict";
// Adds copy buttons to code and sorting to tables that allow it, and keeps options of commands on one line.
(() => {
  const copied = async (block) => {
    try {
      await navigator.clipboard.writeText(block.textContent.trim() + "\n");
    } catch {
      // A page that was opened as a file may not have the clipboard: what is selected can still be copied.
      getSelection().selectAllChildren(block);
      return document.execCommand("copy");
    }
    return true;
  };
  const whole = (option) => {
    const span = document.createElement("span");
    span.className = "whole";
    span.textContent = option;
    return span;
  };
  for (const pre of document.querySelectorAll("pre")) {
    // Browsers break lines after a hyphen.
    const parts = pre.firstElementChild.textContent.split(/(?<![\w-])(--[a-z][\w-]*)/);
    pre.firstElementChild.replaceChildren(...parts.map((part, at) => (at % 2 ? whole(part) : part)));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      button.textContent = (await copied(pre.firstElementChild)) ? "copied" : "select and copy";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    const holder = document.createElement("div");
    holder.className = "copyable";
    pre.replaceWith(holder);
    holder.append(pre, button);
  }

  const value = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const body = table.tBodies[0];
        const numbers = typeof value(body.rows[0], at) === "number";
        // Numbers begin with the largest, texts with the first; the second click turns it round.
        const usual = numbers ? "descending" : "ascending";
        const way = head.getAttribute("aria-sort") === usual ? (numbers ? "ascending" : "descending") : usual;
        const sign = way === "ascending" ? 1 : -1;
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a, at), value(b, at)];
          return sign * (numbers ? x - y : x < y ? -1 : x > y ? 1 : 0);
        });
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", way);
        body.append(...rows);
      });
    });
  }
})();
