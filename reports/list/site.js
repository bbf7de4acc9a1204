// On every page: how numbers are written (as hpcai.core.text writes them), and how data are read.
"use strict";
(() => {
  const sayPlain = (value) => {
    const size = Math.abs(value);
    if (size >= 99.95 || (Number.isInteger(value) && size < 1e15)) return Math.round(value).toLocaleString("en-US");
    if (size >= 1e-3) return value.toPrecision(3);
    return value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  };
  const sayWhole = (value) => value.toLocaleString("en-US");
  const sayNumber = (value, { factor }) => sayPlain(value / factor).replace("-", "−");
  const sayInterval = ({ low, high, least, most }, format) => {
    if (Number.isFinite(low) && Number.isFinite(high)) return `[${sayNumber(low, format)}, ${sayNumber(high, format)}]`;
    return Number.isFinite(least) && Number.isFinite(most) ? `runs ${sayNumber(least, format)} to ${sayNumber(most, format)}` : "no interval";
  };
  window.hpcaiNumbers = { sayWhole, sayNumber, sayInterval };

  // Data are scripts: a page that was opened from a file may read no other file.
  window.hpcaiLoad = (source) => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.addEventListener("load", done);
    script.addEventListener("error", () => fail(new Error(`${source} cannot be read`)));
    script.src = source;
    document.head.append(script);
  });
})();
