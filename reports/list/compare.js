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

  const known = (id) => (Object.hasOwn(window.hpcaiResults ?? {}, id) ? window.hpcaiResults[id] : null);
  const load = async (id) => {
    if (!known(id) && IDENTIFIER.test(id)) await window.hpcaiLoad(`${results}${id}.js`).catch(() => {});
    return known(id);
  };

  const makeTable = (caption, headings, rows) => {
    const head = element("tr", {}, ...headings.map((one) => element("th", { scope: "col" }, one)));
    const table = element("table", { className: "compared" }, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
    const frame = element("div", { className: "scroll", tabIndex: 0 }, table);
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", caption);
    return frame;
  };
  const makeSection = (title, ...parts) => element("section", { className: "part" }, element("h2", {}, title), ...parts);
  const isValid = (one) => one.verdict !== "not valid";
  const titles = (found) => found.map((one, number) => element("a", { href: `${results}${one.id}.html` }, `${"ABCD"[number]}: `, foreign(one.title), ...(isValid(one) ? [] : [element("span", { className: "note" }, one.verdict)])));

  // A closed part of the page.
  const fold = (title, ...parts) => element("details", {}, element("summary", {}, title), ...parts);
  const say = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

  const settings = (found) => {
    const names = [...new Set(found.flatMap((one) => one.facts.map(([name]) => name)))];
    const facts = found.map((one) => new Map(one.facts));
    const valuesOf = (name) => facts.map((one) => one.get(name) ?? "");
    const makeRow = (name) => element("tr", {}, element("th", { scope: "row" }, name), ...valuesOf(name).map((text) => element("td", {}, text ? foreign(text) : none("not stated"))));
    const makeSettings = (caption, chosen) => makeTable(caption, ["Setting", ...titles(found)], chosen.map(makeRow));
    const differing = names.filter((name) => new Set(valuesOf(name)).size > 1);
    const shared = names.filter((name) => !differing.includes(name));
    const parts = differing.length ? [makeSettings("Settings that differ", differing)] : [element("p", { className: "missing" }, `${say(shared.length, "stated setting")}: all the same.`)];
    if (shared.length) parts.push(fold(`${say(shared.length, "setting")} ${shared.length === 1 ? "is" : "are"} the same`, makeSettings("Settings that are the same", shared)));
    return makeSection(`What differs in setting: ${differing.length} of ${names.length}`, ...parts);
  };

  const outcomes = (found) => {
    const kinds = new Map(found.flatMap((one) => one.values.map((value) => [value.name, value])));
    const rows = [...kinds.values()].map((kind) => {
      const cells = found.map((one) => {
        const value = one.values.find(({ name }) => name === kind.name);
        if (!value) return element("td", { className: "number" }, none("not given"));
        const runs = value.repeats.length ? `, n = ${value.repeats.length}` : "";
        return element("td", { className: "number" }, element("span", { className: "value" }, `${value.words} ${value.unit}`), element("span", { className: "note" }, `${sayInterval(value, value)}${runs}`));
      });
      return element("tr", {}, element("th", { scope: "row" }, kind.name), ...cells);
    });
    const verdicts = element("tr", {}, element("th", { scope: "row" }, "Verdict"), ...found.map((one) => element("td", { className: "text" }, one.verdict)));
    rows.unshift(verdicts);
    return makeSection("Outcome", makeTable("Outcome of each result, with its 95 % interval in brackets or the range of its runs", ["Outcome", ...titles(found)], rows));
  };

  const pairsOf = (found) => found.flatMap((one, number) => found.slice(number + 1).map((other, further) => [one, other, "ABCD"[number], "ABCD"[number + 1 + further]]));
  const collectTests = (found) => pairsOf(found).flatMap(([one, other, left, right]) => one.values.flatMap((value) => {
    const against = other.values.find(({ name }) => name === value.name);
    if (!against) return [];
    const apart = Object.keys(one.apart).filter((key) => String(one.apart[key]) !== String(other.apart[key]));
    const broken = [[left, one], [right, other]].filter(([, result]) => !isValid(result)).map(([letter]) => letter);
    return [{ left, right, value, against, apart, broken, test: compareSamples(value.repeats, against.repeats) }];
  }));
  // Why a pair cannot be tested; blank if it can.
  const sayObstacle = ({ test, apart }) => {
    if (apart.length) return `not the same ${apart.join(", ")}: the two never stand in one list`;
    if (!test.before && !test.after) return "no value of single repeats is given";
    if (test.before < 2 || test.after < 2) return "a test needs at least two repeats on each side";
    return "";
  };
  const sayTest = ({ test, corrected }) => {
    const how = restsOnNormal(test) ? "too few repeats for the permutation test, so that the t test and non-overlapping values decide (normal scatter assumed)" : `permutation test p = ${test.pPermutation.toPrecision(2)} of ${test.picks} arrangements`;
    return (Number.isFinite(corrected) ? `t test p = ${corrected.toPrecision(2)} after Holm's correction; ` : "") + how;
  };
  const sayPair = ({ left, right, value }) => `${left} → ${right}: ${value.name}`;
  const makeTest = (one) => {
    const { test, value, right, left, broken } = one;
    const invalid = broken.length ? [element("span", { className: "note" }, `not valid: ${broken.join(" and ")}`)] : [];
    const better = (test.ratio > 1) === (value.better === "higher") ? right : left;
    return element("tr", { className: one.significant ? "significant" : "" },
      element("th", { scope: "row" }, sayPair(one)),
      element("td", { className: "number" }, Number.isFinite(test.ratio) ? `×${sayNumber(test.ratio, { factor: 1 })}` : none("–"), element("span", { className: "note" }, sayInterval(test, { factor: 1 }))),
      element("td", { className: "text" }, one.significant ? `significant: ${better} is better` : "no significant difference", ...invalid),
      element("td", { className: "prose" }, sayTest(one)));
  };
  const makeTests = (title, tests) => [element("h3", {}, `${title} (${tests.length})`), makeTable(title, ["Pair", element("span", { className: "figures" }, "Ratio"), "Verdict", "Test"], tests.map(makeTest))];
  // Reasons with their number, most frequent first, and what each concerns.
  const makeUntested = (tests) => {
    const reasons = new Map();
    for (const one of tests) {
      const reason = `${one.left} → ${one.right}: ${one.obstacle}`;
      reasons.set(reason, [...(reasons.get(reason) ?? []), one]);
    }
    const ordered = [...reasons].sort(([, some], [, more]) => more.length - some.length);
    const rows = ordered.map(([reason, ones]) => element("li", {}, `${reason}: `, element("span", { className: "note" }, `${say(ones.length, "quantity", "quantities")}: ${ones.map(({ value }) => value.name).join(", ")}`)));
    return fold(`Not testable: ${say(tests.length, "pair")}`, element("ul", {}, ...rows));
  };
  const significance = (found) => {
    const all = collectTests(found).map((one) => ({ ...one, obstacle: sayObstacle(one) }));
    const [tests, untested] = [all.filter((one) => !one.obstacle), all.filter((one) => one.obstacle)];
    const corrected = correctHolm(tests.map(({ test }) => pValue(test)));
    tests.forEach((one, number) => Object.assign(one, { corrected: corrected[number], significant: isSignificant(one.test, corrected[number]) }));
    const parts = [];
    if (tests.length) {
      parts.push(element("p", { className: "question" }, "Each pair: the ratio of the means of all repeats (second over first), its 95 % interval by Welch's method, and two tests that must agree: a t test with the degrees of freedom of the smaller side, corrected after Holm for all pairs on this page, and a permutation test, each at 5 %."));
    } else {
      const reasons = [...new Set(untested.map((one) => `${one.left} and ${one.right}: ${one.obstacle}`))];
      parts.push(element("p", { className: "missing" }, all.length ? `Nothing here can be tested. ${reasons.join("; ")}.` : "The results have no quantity in common."));
    }
    const significant = tests.filter((one) => one.significant);
    const others = tests.filter((one) => !one.significant);
    if (significant.length) parts.push(...makeTests("Significant differences", significant));
    if (others.length) parts.push(...makeTests("No significant difference", others));
    if (untested.length) parts.push(makeUntested(untested));
    return makeSection("Is the difference significant?", ...parts);
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
