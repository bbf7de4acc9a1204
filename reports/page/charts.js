// Charts that answer to the mouse: each is drawn over its picture when it comes near the screen.
"use strict";
// `load` promises Vega-Embed, `read` returns or promises the specification of a name, `options` are Vega-Embed's.
window.hpcaiCharts = (load, read, isDark, options = {}) => {
  const embedded = new Set();

  // The texts of a chart take the colour of the page; its marks are readable on both.
  const recolour = (specification) => {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    const soft = style.getPropertyValue("--soft").trim();
    const config = specification.config ?? {};
    const texts = { "guide-label": { fill: soft }, "guide-title": { fill: ink }, "group-title": { fill: ink }, "group-subtitle": { fill: soft } };
    return {
      ...specification,
      config: { ...config, background: "transparent", style: { ...config.style, ...texts }, text: { color: ink, ...config.text }, axis: { domainColor: soft, tickColor: soft, ...config.axis } },
    };
  };

  const embed = async (place) => {
    const name = place.dataset.figure;
    const figure = place.closest("figure");
    embedded.add(place);
    try {
      const specification = await read(name, figure);
      const vegaEmbed = await load();
      await vegaEmbed(place, recolour(specification), {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, ...options,
        tooltip: { theme: isDark() ? "dark" : "light", ...options.tooltip },
      });
      place.hidden = false;
      figure.classList.add("answers");
      figure.querySelector(".hint").hidden = false;
    } catch (error) {
      place.hidden = true;
      figure.classList.remove("answers");
      console.error(`The chart ${name} stays a picture:`, error);
    }
  };

  const places = [...document.querySelectorAll(".live")];
  if (places.length) {
    const near = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        embed(target.querySelector(".live"));
      }
    }, { rootMargin: "800px" });
    const start = () => places.forEach((place) => near.observe(place.closest("figure")));
    // Not before the first paint: the picture stands there already.
    requestAnimationFrame(() => setTimeout(start));
  }
  return { draw: () => embedded.forEach(embed) };
};
