"use strict";
(() => {
  const form = document.querySelector(".controls");
  const search = form.querySelector("[type=search]");
  const shown = form.querySelector("output");
  const boxes = [...form.querySelectorAll("[type=checkbox]")];
  const entries = [...document.querySelectorAll(".entry")];
  // Without accents and case, so that a phone's keyboard finds everything.
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  let texts = null;  // made when somebody searches for the first time
  let waiting = 0;

  const filter = () => {
    const words = fold(search.value).split(/\s+/).filter(Boolean);
    const wanted = boxes.filter((box) => box.checked).map((box) => box.name);
    if (words.length && !texts) texts = entries.map((entry) => fold(entry.textContent));
    let hits = 0;
    entries.forEach((entry, index) => {
      const fits = wanted.every((name) => entry.classList.contains(name)) &&
        words.every((word) => texts[index].includes(word));
      entry.hidden = !fits;
      hits += fits;
    });
    const all = entries.length.toLocaleString("en");
    shown.textContent = hits === entries.length
      ? `${all} ${hits === 1 ? "entry" : "entries"}`
      : `${hits.toLocaleString("en")} of ${all}`;
  };

  const clear = () => {
    search.value = "";
    boxes.forEach((box) => { box.checked = false; });
    filter();
  };

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, entries.length > 2000 ? 150 : 0);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") clear();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input")) {
      event.preventDefault();
      search.focus();
    }
  });
  // A link may lead to an entry that the search has put away.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const target = link && document.getElementById(link.hash.slice(1));
    if (target && target.hidden) clear();
  });
  // On paper nothing can be unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => {
    folded.forEach((details) => { details.open = false; });
  });
  filter();
})();
