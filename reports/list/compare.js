// Two to four results side by side: what differs in setting and outcome, and whether the repeats show a difference.
"use strict";
(() => {
  const { compareSamples, correctHolm, isSignificant, pValue, restsOnNormal } = window.hpcaiStatistics;
  const { sayNumber, sayInterval } = window.hpcaiNumbers;
  const MOST = 4;
  const IDENTIFIER = /^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$/;
  const place = document.getElementById("comparison");
  const form = document.getElementById("compare-form");
  const results = place.dataset.results;

  const element = (name, about = {}, ...parts) => { const made = Object.assign(document.createElement(name), about); made.append(...parts); return made; };
  const foreign = (text) => element("bdi", {}, text);
  const none = (text) => element("span", { className: "none" }, text);

  const load = (id) => new Promise((done) => {
    if (window.hpcaiResults?.[id]) { done(window.hpcaiResults[id]); return; }
    if (!IDENTIFIER.test(id)) { done(null); return; }
    const script = element("script", { src: `${results}${id}.js` });
    script.addEventListener("load", () => done(window.hpcaiResults?.[id] ?? null));
    script.addEventListener("error", () => done(null));
    document.head.append(script);
  });

  const makeTable = (caption, headings, rows) => {
    const head = element("tr", {}, ...headings.map((one) => element("th", { scope: "col" }, one)));
    const table = element("table", { className: "compared" }, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
    const frame = element("div", { className: "scroll", tabIndex: 0 }, table);
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", caption);
    return frame;
  };
  const makeSection = (title, ...parts) => element("section", { className: "part" }, element("h2", {}, title), ...parts);
  const titles = (found) => found.map((one, number) => element("a", { href: `${results}${one.id}.html` }, `${"ABCD"[number]}: `, foreign(one.title)));

  const settings = (found) => {
    const names = [...new Set(found.flatMap((one) => one.facts.map(([name]) => name)))];
    const facts = found.map((one) => new Map(one.facts));
    const rows = names.map((name) => {
      const cells = facts.map((one) => one.get(name) ?? "");
      const differs = new Set(cells).size > 1;
      const head = element("th", { scope: "row" }, name, ...(differs ? [element("span", { className: "note" }, "differs")] : []));
      return element("tr", { className: differs ? "differs" : "" }, head, ...cells.map((text) => element("td", {}, text ? foreign(text) : none("not known"))));
    });
    const number = rows.filter((row) => row.className).length;
    return makeSection("Setting", element("p", {}, `${number} of ${names.length} settings differ.`), makeTable("Setting of each result", ["Setting", ...titles(found)], rows));
  };

  const outcomes = (found) => {
    const known = new Map(found.flatMap((one) => one.values.map((value) => [value.name, value])));
    const rows = [...known.values()].map((kind) => {
      const cells = found.map((one) => {
        const value = one.values.find(({ name }) => name === kind.name);
        if (!value) return element("td", { className: "number" }, none("not given"));
        const runs = value.repeats.length ? `, n = ${value.repeats.length}` : "";
        return element("td", { className: "number" }, element("span", { className: "value" }, `${sayNumber(value.value, value)} ${value.unit}`), element("span", { className: "note" }, `${sayInterval(value.low ?? NaN, value.high ?? NaN, value)}${runs}`));
      });
      return element("tr", {}, element("th", { scope: "row" }, kind.name), ...cells);
    });
    return makeSection("Outcome", makeTable("Outcome of each result, with its 95 % interval", ["Outcome", ...titles(found)], rows));
  };

  const pairsOf = (found) => found.flatMap((one, number) => found.slice(number + 1).map((other, further) => [one, other, "ABCD"[number], "ABCD"[number + 1 + further]]));
  const collectTests = (found) => pairsOf(found).flatMap(([one, other, left, right]) => one.values.flatMap((value) => {
    const against = other.values.find(({ name }) => name === value.name);
    if (!against) return [];
    const apart = Object.keys(one.apart).filter((key) => String(one.apart[key]) !== String(other.apart[key]));
    return [{ left, right, value, against, apart, test: compareSamples(value.repeats, against.repeats) }];
  }));
  const sayVerdict = ({ test, apart, value }, corrected) => {
    if (apart.length) return ["not comparable", `Not the same ${apart.join(", ")}: the two never stand in one list.`];
    if (test.before < 2 || test.after < 2) return ["not testable", "A test needs the values of at least two repeats on each side."];
    const better = (test.ratio > 1) === (value.better === "higher");
    const how = restsOnNormal(test) ? "too few repeats for the permutation test, so that the t test and non-overlapping values decide (normal scatter assumed)" : `permutation test p = ${test.pPermutation.toPrecision(2)} of ${test.picks} arrangements`;
    const numbers = Number.isFinite(corrected) ? `t test p = ${corrected.toPrecision(2)} after Holm's correction; ` : "";
    if (isSignificant(test, corrected)) return [better ? "significant: the second is better" : "significant: the first is better", numbers + how];
    return ["no significant difference", numbers + how];
  };
  const significance = (found) => {
    const all = collectTests(found);
    const tests = all.filter(({ test }) => test.before || test.after);
    const untested = [...new Set(all.filter(({ test }) => !(test.before || test.after)).map(({ value }) => value.name))];
    const left = untested.length ? [element("p", { className: "missing" }, `Not tested, because no value of single repeats is given: ${untested.join(", ")}.`)] : [];
    const counted = tests.map(({ test, apart }) => (apart.length ? NaN : pValue(test)));
    const corrected = correctHolm(counted);
    const rows = tests.map((one, number) => {
      const { test, apart } = one;
      const [verdict, why] = sayVerdict(one, corrected[number]);
      const ratio = apart.length || !Number.isFinite(test.ratio) ? none("–") : `×${sayNumber(test.ratio, { factor: 1 })}`;
      const interval = apart.length || !Number.isFinite(test.low) ? "" : sayInterval(test.low, test.high, { factor: 1 });
      return element("tr", { className: verdict.startsWith("significant") ? "significant" : "" },
        element("th", { scope: "row" }, `${one.left} → ${one.right}: ${one.value.name}`),
        element("td", { className: "number" }, ratio, element("span", { className: "note" }, interval)),
        element("td", { className: "text" }, verdict), element("td", { className: "prose" }, why));
    });
    const how = "Each pair: the ratio of the means of all repeats (second over first), its 95 % interval by Welch's method, and two tests that must agree: a t test with the degrees of freedom of the smaller side, corrected after Holm for all pairs on this page, and a permutation test, each at 5 %.";
    return makeSection("Is the difference significant?", element("p", { className: "question" }, how), makeTable("Pairs of results and their tests", ["Pair", "Ratio", "Verdict", "Test"], rows), ...left);
  };

  const show = async () => {
    const ids = [...new Set((new URLSearchParams(location.search).get("results") ?? "").split(",").map((one) => one.trim()).filter((one) => one))];
    form.elements.results.value = ids.join(", ");
    const loaded = await Promise.all(ids.slice(0, MOST).map(load));
    const found = loaded.filter((one) => one);
    const lost = ids.filter((id, number) => number < MOST && !loaded[number]);
    const notes = [];
    if (lost.length) notes.push(element("p", { className: "missing" }, "No result in this edition: ", foreign(lost.join(", "))));
    if (ids.length > MOST) notes.push(element("p", { className: "missing" }, `Only the first ${MOST} are compared.`));
    if (found.length < 2) notes.push(element("p", { className: "missing" }, "Choose at least two results, here or with the boxes of a list."));
    place.replaceChildren(...notes, ...(found.length < 2 ? [] : [outcomes(found), significance(found), settings(found)]));
    document.title = found.length < 2 ? document.title : `${found.map((one) => one.title).join(" – ")} · compared`;
    document.documentElement.classList.add("interactive");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = form.elements.results.value.split(/[\s,]+/).filter((one) => one).map(encodeURIComponent).join(",");
    history.pushState(null, "", `${location.pathname}?results=${wanted}`);
    show();
  });
  addEventListener("popstate", show);
  form.hidden = false;
  show();
})();
