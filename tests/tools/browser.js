/* What is wrong in the page that is shown, as a list of sentences: what tests/tools/browser.py asks every page. */
() => {
  const faults = [];
  const root = document.documentElement;
  const say = (text) => { if (faults.length < 40) faults.push(text); };
  const name = (element) => {
    const text = (element.textContent || element.getAttribute("aria-label") || "").trim().slice(0, 40);
    return `<${element.tagName.toLowerCase()}> "${text}"`;
  };
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility === "visible";
  const box = (element) => element.getBoundingClientRect();
  const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
    && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;

  if (root.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth)
    say(`the page is ${Math.max(root.scrollWidth, document.body.scrollWidth)} pixels wide, the window ${innerWidth}`);

  /* Pictures: as wide as there is room, all their texts inside, none over another. */
  for (const svg of document.querySelectorAll("svg")) {
    const whole = box(svg), plot = svg.closest(".plot");
    if (whole.right > innerWidth + 1) say(`a picture ends at ${whole.right}, the window at ${innerWidth}`);
    const meant = Number(svg.getAttribute("width"));
    if (meant > whole.width + 1) say(`a picture of ${meant} pixels, and its texts with it, is shrunk to ${whole.width}`);
    if (plot && plot.scrollWidth > plot.clientWidth) say(`a picture is clipped: ${name(plot.closest("figure"))}`);
    const texts = [...svg.querySelectorAll("text")].filter(
      (text) => text.textContent.trim() && shown(text) && getComputedStyle(text).opacity !== "0",
    );
    const boxes = texts.map(box);
    boxes.forEach((own, i) => {
      if (!inside(own, whole)) say(`${name(texts[i])} is clipped by its picture`);
      for (let j = 0; j < i; j++) {
        const wide = Math.min(own.right, boxes[j].right) - Math.max(own.left, boxes[j].left);
        const high = Math.min(own.bottom, boxes[j].bottom) - Math.max(own.top, boxes[j].top);
        if (wide > 1 && high > 1) say(`${name(texts[i])} lies over ${name(texts[j])}`);
      }
    });
  }

  /* Tables: what is in a cell, and what is in a caption or a button, ends in it. */
  for (const cell of document.querySelectorAll("td, th, caption, figcaption, button, h1, h2, li, p")) {
    if (!shown(cell)) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    for (const part of range.getClientRects())
      if (part.width && !inside(part, box(cell))) { say(`${name(cell)} does not fit its place`); break; }
    if (getComputedStyle(cell).overflowX !== "visible" && cell.scrollWidth > cell.clientWidth + 1)
      say(`${name(cell)} is clipped`);
  }

  /* Contrast, as WCAG 2 counts it: at least 4.5 to 1, also of looks that this page has no text of. */
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
  const ground = (element) => {
    if (!element) return root.dataset.theme === "dark" ? [0, 0, 0] : [255, 255, 255];
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement));
  };
  const contrast = (element) => {
    const below = ground(element), style = getComputedStyle(element);
    const ink = over(rgba(element instanceof SVGElement ? style.fill : style.color), below);
    const [dark, bright] = [light(ink), light(below)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const probes = [["span", ""], ["a", ""], ["span", "quiet"], ["span", "good"], ["span", "bad"]].map(([tag, look]) => {
    const probe = document.createElement(tag);
    probe.href = "#";
    probe.className = look;
    probe.textContent = `the look ${look || tag}`;
    document.body.append(probe);
    return probe;
  });
  const holders = [...document.querySelectorAll("body *")].filter((element) => shown(element)
    && !element.closest("script, style") && [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
  for (const element of holders) {
    const ratio = contrast(element);
    if (!(ratio >= 4.5)) say(`${name(element)} has a contrast of ${ratio.toFixed(2)} to 1`);
  }
  probes.forEach((probe) => probe.remove());
  return faults;
}
