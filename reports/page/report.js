// Contents, definitions in place, and the library of the charts. The page is complete without it.
"use strict";
(() => {
  const root = document.documentElement;
  const contents = document.querySelector("nav.contents details");
  const wide = matchMedia("(min-width: 1000px)");
  const fitContents = () => { contents.open = wide.matches; };
  fitContents();
  wide.addEventListener("change", fitContents);
  contents.addEventListener("click", (event) => { if (event.target.closest("a") && !wide.matches) contents.open = false; });

  // Once everything is laid out, a link leads to where its target stays.
  const settle = () => root.classList.add("settled");
  addEventListener("load", () => setTimeout(() => {
    settle();
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, 300));
  // Charts that come alive on the way have other heights: the page goes there once more when it is at rest, unless the
  // reader has gone on.
  const NEAR = 400;
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    settle();
    const target = document.getElementById(link.hash.slice(1));
    addEventListener("scrollend", () => setTimeout(() => {
      if (target && Math.abs(target.getBoundingClientRect().top) < NEAR) target.scrollIntoView({ behavior: "instant" });
    }, 300), { once: true });
  }, true);

  const entries = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const reading = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      entries.forEach((link) => link.removeAttribute("aria-current"));
      entries.get(target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -85% 0px" });
  entries.forEach((_, id) => reading.observe(document.getElementById(id)));

  // The pictures of the first screen are those of the sections: they stand in the file once.
  for (const link of document.querySelectorAll(".previews a")) {
    const picture = new Image();
    picture.className = "drawn";
    picture.alt = "";
    picture.src = document.querySelector(`${link.hash} img.drawn`).src;
    link.prepend(picture);
  }

  const dialog = document.getElementById("definition");
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.definition");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) {
      if (dialog.open && !event.target.closest("dialog")) dialog.close();
      return;
    }
    const entry = document.getElementById(link.hash.slice(1));
    if (!entry) return;
    event.preventDefault();
    const copy = entry.cloneNode(true);
    copy.removeAttribute("id");
    const list = document.createElement("dl");
    list.className = "definitions";
    list.append(copy);
    const all = document.createElement("a");
    all.href = link.hash;
    all.textContent = "All definitions";
    all.addEventListener("click", () => dialog.close());
    dialog.firstElementChild.replaceChildren(list, all);
    if (!dialog.open) dialog.show();
    const place = link.getBoundingClientRect();
    dialog.style.left = `${Math.max(8, Math.min(place.left, innerWidth - dialog.offsetWidth - 8))}px`;
    const below = place.bottom + 6;
    dialog.style.top = `${below + dialog.offsetHeight < innerHeight ? below : Math.max(8, place.top - dialog.offsetHeight - 6)}px`;
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") dialog.close(); });
  addEventListener("scroll", () => dialog.close(), { passive: true });

  const opened = [];
  addEventListener("beforeprint", () => {
    document.querySelectorAll("main details:not([open]):not(.document, .document *)").forEach((item) => { item.open = true; opened.push(item); });
  });
  addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });

  let library;
  const load = () => (library ??= new Promise((done) => setTimeout(() => {
    const script = document.createElement("script");
    script.textContent = document.getElementById("chart-library").textContent;
    document.head.append(script);
    done(window.vegaEmbed);
  })));
  const read = (name) => JSON.parse(document.querySelector(`[data-specification="${name}"]`).textContent);
  const charts = window.hpcaiCharts(load, read, window.hpcaiIsDark);
  addEventListener("hpcai-theme", charts.draw);
})();
