// The charts of the list: their library is read when the first of them comes near the screen.
"use strict";
(() => {
  const assets = document.currentScript.src.replace(/[^/]*$/, "");
  const NARROWEST = 260;
  let library;
  const load = async () => {
    await (library ??= window.hpcaiLoad(`${assets}vega.js`));
    return window.vegaEmbed;
  };
  // As wide as the page has room for; a legend with as many columns as fit.
  const fit = (specification, room) => {
    const share = Math.min(1, Math.max(NARROWEST, room) / specification.width);
    const text = JSON.stringify(specification, (key, value) => (key === "legend" && value?.columns ? { ...value, columns: Math.max(1, Math.floor(value.columns * share)), labelLimit: Math.floor(value.labelLimit * share) } : value));
    return { ...JSON.parse(text), width: Math.floor(specification.width * share), autosize: { type: "fit-x", contains: "padding" } };
  };
  const read = async (name, figure) => {
    if (!window.hpcaiSpecifications?.[name]) await window.hpcaiLoad(`${assets}charts/${name}.js`);
    return fit(window.hpcaiSpecifications[name], figure.querySelector(".canvas").clientWidth);
  };
  // The policy of these pages allows no styles inside of them: those of the charts stand in list.css.
  const charts = window.hpcaiCharts(load, read, window.hpcaiIsDark, { defaultStyle: false, tooltip: { disableDefaultStyle: true } });
  addEventListener("hpcai-theme", charts.draw);
})();
