// One list: sorted, filtered and paged by TanStack Table; what the reader chose stands in the address.
"use strict";
(() => {
  const { createTable, getCoreRowModel, getFilteredRowModel, getSortedRowModel, getPaginationRowModel } = window.TableCore;
  const PAGE = 50;
  const MOST_COMPARED = 4;
  const CHOICES = ["round", "accelerator", "year", "organisation"];
  const part = (name) => document.getElementById(name);
  const [table, form, status] = [part("list"), part("filters"), part("list-status")];
  const { first, better, total, parts } = window.hpcaiList[0];
  const { sayWhole, sayNumber, sayInterval } = window.hpcaiNumbers;
  const NO_WORD = { text: "", href: "" };

  // A part holds columns; a word that many rows share is written once, and its rows hold its number.
  const decode = ({ columns, words }) => columns.id.map((id, place) => {
    const row = { id };
    for (const name of Object.keys(columns)) {
      const cell = columns[name][place];
      if (!(name in words)) row[name] = cell;
      else row[name] = cell === null ? NO_WORD : typeof words[name][cell] === "string" ? { text: words[name][cell], href: "" } : words[name][cell];
    }
    return row;
  });
  // In the order of storage, best first; what is not valid comes last, whatever its value.
  const rows = [];
  const take = (part) => { for (const row of decode(part)) { row.order = better === "higher" ? -rows.length : rows.length; rows.push(row); } };
  take(window.hpcaiList[0]);
  const value = { value: (row) => row.order, scale: (row) => row.scale ?? undefined, score: (row) => row.score ?? undefined };
  for (const name of ["machine", ...CHOICES]) value[name] = (row) => row[name].text;
  // In lower case; made when somebody seeks.
  const searchText = (row) => (row.sought ??= ["machine", "setting", "organisation", "accelerator", "round", "year"].map((name) => row[name].text).concat(row.id).join("\n").toLowerCase());

  const among = (row, id, wanted) => String(row.getValue(id)) === wanted;
  const between = (row, id, [low, high]) => { const found = row.getValue(id); return found !== undefined && found >= low && found <= high; };
  const compareWords = new Intl.Collator("en", { numeric: true });
  const byWords = (a, b, id) => compareWords.compare(a.getValue(id), b.getValue(id));
  const column = (id, more) => ({ id, accessorFn: value[id], sortUndefined: "last", sortingFn: "basic", ...more });
  const columns = [
    column("value", { sortDescFirst: better === "higher" }),
    column("machine", { sortingFn: byWords }),
    ...CHOICES.map((id) => column(id, { sortingFn: byWords, filterFn: among })),
    column("scale", { filterFn: between, sortDescFirst: true }),
    column("score", { sortDescFirst: true }),
  ];
  const standard = { id: "value", desc: better === "higher" };

  // State from the address, and back.
  const readAddress = () => {
    const given = new URLSearchParams(location.search);
    const [sort, page] = [given.get("sort") ?? "", Number.parseInt(given.get("page") ?? "1", 10)];
    const id = sort.replace(/^-/, "");
    const filters = CHOICES.filter((name) => given.get(name)).map((name) => ({ id: name, value: given.get(name) }));
    const [low, high] = ["from", "to"].map((name) => Number.parseFloat(given.get(name) ?? ""));
    if (Number.isFinite(low) || Number.isFinite(high)) filters.push({ id: "scale", value: [Number.isFinite(low) ? low : 0, Number.isFinite(high) ? high : Infinity] });
    return {
      sorting: [id in value ? { id, desc: sort.startsWith("-") } : standard],
      columnFilters: filters,
      globalFilter: given.get("q") ?? "",
      pagination: { pageIndex: page > 0 ? page - 1 : 0, pageSize: PAGE },
      compared: (given.get("compare") ?? "").split(",").filter((one) => one).slice(0, MOST_COMPARED),
    };
  };
  const writeAddress = (state) => {
    const given = new URLSearchParams();
    if (state.globalFilter) given.set("q", state.globalFilter);
    for (const { id, value: wanted } of state.columnFilters) {
      if (id !== "scale") { given.set(id, wanted); continue; }
      if (wanted[0] > 0) given.set("from", wanted[0]);
      if (wanted[1] < Infinity) given.set("to", wanted[1]);
    }
    const [{ id, desc }] = state.sorting;
    if (id !== standard.id || desc !== standard.desc) given.set("sort", `${desc ? "-" : ""}${id}`);
    if (state.pagination.pageIndex) given.set("page", state.pagination.pageIndex + 1);
    if (state.compared.length) given.set("compare", state.compared.join(","));
    return given.toString();
  };

  let state = readAddress();
  const model = createTable({
    data: rows, columns, state: {}, renderFallbackValue: "", enableSortingRemoval: false, autoResetPageIndex: false,
    getRowId: (row) => row.id,
    globalFilterFn: (row, _, wanted) => searchText(row.original).includes(wanted),
    getColumnCanGlobalFilter: (one) => one.id === "machine",
    onStateChange: () => {},
    getCoreRowModel: getCoreRowModel(), getFilteredRowModel: getFilteredRowModel(),
    getSortedRowModel: getSortedRowModel(), getPaginationRowModel: getPaginationRowModel(),
  });
  let drawn = rows;
  const give = () => model.setOptions((options) => ({
    ...options,
    data: drawn,
    state: { ...model.initialState, ...state, globalFilter: state.globalFilter.trim().toLowerCase() },
  }));

  // Drawing: every text is text.
  const element = (name, text = "", about = {}) => Object.assign(document.createElement(name), { textContent: text }, about);
  const named = (text, href) => {
    const inside = element("bdi", text);
    if (!href) return inside;
    const link = element("a", "", { href });
    link.append(inside);
    return link;
  };
  const cell = (className, ...parts) => { const made = element("td", "", { className }); made.append(...parts); return made; };
  const unknown = () => element("span", "not known", { className: "none" });
  const linked = ({ text, href }) => (text ? named(text, href) : unknown());
  const makeRow = (row) => {
    const line = element("tr");
    const [number, format] = [row.value, first.format];
    const result = element("a", "", { href: `${first.results}${row.id}.html` });
    result.append(element("span", number === null ? "–" : sayNumber(number, format), { className: "value" }));
    const interval = number === null ? "" : sayInterval(row, format);
    const box = element("input", "", { type: "checkbox", name: "compare", value: row.id, checked: state.compared.includes(row.id) });
    box.setAttribute("aria-label", ["Compare", row.machine.text, row.setting.text, `${first.units}: ${row.scale === null ? "?" : sayWhole(row.scale)}`, row.round.text].filter((word) => word).join(", "));
    const head = element("th", "", { scope: "row" });
    head.append(linked(row.machine));
    if (row.setting.text) { const note = element("span", "", { className: "note" }); note.append(named(row.setting.text, "")); head.append(note); }
    line.append(
      cell("number rank", row.place === null ? "not valid" : sayWhole(row.place)), head,
      cell("number", result, element("span", interval, { className: "note" })),
      cell("text", linked(row.accelerator)), cell("number", row.scale === null ? unknown() : sayWhole(row.scale)),
      cell("text", linked(row.organisation)), cell("text", linked(row.round)), cell("number", linked(row.year)),
      cell("number", row.score === null ? element("span", "–", { className: "none", title: "not measured" }) : String(row.score)),
      cell("pick", box),
    );
    return line;
  };

  const drawHeadings = () => {
    const [{ id, desc }] = state.sorting;
    for (const head of table.tHead.querySelectorAll("th[data-column]")) {
      const isSorted = head.dataset.column === id;
      if (isSorted) head.setAttribute("aria-sort", desc ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    }
  };
  const drawFilters = () => {
    for (const name of CHOICES) form.elements[name].value = state.columnFilters.find((one) => one.id === name)?.value ?? "";
    const scale = state.columnFilters.find((one) => one.id === "scale")?.value ?? [0, Infinity];
    form.elements.from.value = scale[0] || "";
    form.elements.to.value = Number.isFinite(scale[1]) ? scale[1] : "";
    if (document.activeElement !== form.elements.q) form.elements.q.value = state.globalFilter;
  };
  const drawCompare = () => {
    const link = part("compare-link");
    const number = state.compared.length;
    part("compare-bar").hidden = number === 0;
    part("compare-words").textContent = number === 1 ? "1 result chosen: choose another to compare" : `${number} results chosen (of ${MOST_COMPARED} at most)`;
    link.hidden = number < 2;
    link.href = `${first.compare}?results=${state.compared.map(encodeURIComponent).join(",")}`;
    for (const box of table.querySelectorAll('input[name="compare"]')) {
      box.checked = state.compared.includes(box.value);
      box.disabled = number >= MOST_COMPARED && !box.checked;
    }
  };
  // The other lists keep what is chosen here, as far as they have it.
  const drawLinks = () => {
    const kept = new URLSearchParams(writeAddress({ ...state, compared: [], pagination: { pageIndex: 0 } })).toString();
    for (const link of document.querySelectorAll("a[data-keeps]")) link.href = link.href.split("?")[0] + (kept ? `?${kept}` : "");
  };
  const draw = () => {
    give();
    const found = model.getFilteredRowModel().rows.length;
    const pages = Math.max(1, Math.ceil(found / PAGE));
    if (state.pagination.pageIndex >= pages) { state.pagination = { ...state.pagination, pageIndex: pages - 1 }; give(); }
    const start = state.pagination.pageIndex * PAGE;
    table.tBodies[0].replaceChildren(...model.getPaginationRowModel().rows.map((row) => makeRow(row.original)));
    part("list-none").hidden = found > 0;
    const count = rows.length;
    const more = count < total ? `; ${sayWhole(total - count)} more are being read` : "";
    status.textContent = (found ? `${found === count ? "" : `${sayWhole(found)} of `}${sayWhole(count)} results; rows ${sayWhole(start + 1)} to ${sayWhole(Math.min(start + PAGE, found))}, page ${state.pagination.pageIndex + 1} of ${pages}` : `0 of ${sayWhole(count)} results`) + more;
    part("previous").disabled = state.pagination.pageIndex === 0;
    part("next").disabled = state.pagination.pageIndex >= pages - 1;
    part("pages").hidden = pages === 1;
    drawHeadings();
    drawFilters();
    drawCompare();
    drawLinks();
  };

  const go = (change, { replaces = false, returns = true } = {}) => {
    state = { ...state, ...change };
    if (returns) state.pagination = { ...state.pagination, pageIndex: change.pagination?.pageIndex ?? 0 };
    draw();
    const address = writeAddress(state);
    const url = location.pathname + (address ? `?${address}` : "") + location.hash;
    if (url === location.pathname + location.search + location.hash) return;
    history[replaces ? "replaceState" : "pushState"](null, "", url);
  };

  // Choices of the filters, as the list has them.
  const offerChoices = () => {
    for (const name of CHOICES) {
      const texts = [...new Set(rows.map((row) => row[name].text))].filter((text) => text);
      texts.sort(name === "year" ? (a, b) => b - a : compareWords.compare);
      form.elements[name].replaceChildren(form.elements[name].options[0], ...texts.map((text) => element("option", text, { value: text })));
    }
  };
  const readForm = () => {
    const filters = CHOICES.filter((name) => form.elements[name].value).map((name) => ({ id: name, value: form.elements[name].value }));
    const [low, high] = [form.elements.from.valueAsNumber, form.elements.to.valueAsNumber];
    if (Number.isFinite(low) || Number.isFinite(high)) filters.push({ id: "scale", value: [Number.isFinite(low) ? low : 0, Number.isFinite(high) ? high : Infinity] });
    return { columnFilters: filters, globalFilter: form.elements.q.value };
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); go(readForm()); });
  form.addEventListener("change", () => go(readForm()));
  form.elements.q.addEventListener("input", () => go(readForm(), { replaces: true }));
  form.addEventListener("reset", (event) => { event.preventDefault(); form.elements.q.value = ""; go({ columnFilters: [], globalFilter: "" }); });
  for (const head of table.tHead.querySelectorAll("th[data-column]")) {
    const button = element("button", head.textContent, { type: "button", className: "sort" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const [{ id, desc }] = state.sorting;
      const name = head.dataset.column;
      const firstDown = model.getColumn(name).columnDef.sortDescFirst ?? false;
      go({ sorting: [{ id: name, desc: id === name ? !desc : firstDown }] });
    });
  }
  table.addEventListener("change", ({ target }) => {
    if (target.name !== "compare") return;
    const compared = state.compared.filter((one) => one !== target.value);
    if (target.checked) compared.push(target.value);
    state = { ...state, compared };
    drawCompare();
    history.replaceState(null, "", location.pathname + (writeAddress(state) ? `?${writeAddress(state)}` : ""));
  });
  part("compare-none").addEventListener("click", () => go({ compared: [] }, { returns: false }));
  const turn = (by) => { go({ pagination: { ...state.pagination, pageIndex: state.pagination.pageIndex + by } }); table.scrollIntoView({ block: "start" }); };
  part("previous").addEventListener("click", () => turn(-1));
  part("next").addEventListener("click", () => turn(1));
  addEventListener("popstate", () => { state = readAddress(); draw(); });

  const show = () => { drawn = [...rows]; offerChoices(); draw(); };
  const load = (place) => {
    if (place === parts.length) { document.documentElement.classList.add("complete"); return; }
    window.hpcaiLoad(parts[place]).then(() => { take(window.hpcaiList.at(-1)); show(); load(place + 1); });
  };

  form.hidden = false;
  for (const item of document.querySelectorAll(".scripted-only")) item.hidden = false;
  show();
  document.documentElement.classList.add("interactive");
  load(0);
})();
