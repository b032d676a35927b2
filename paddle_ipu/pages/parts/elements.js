// Elements, numbers and the controls that every view shares. Text from the program only ever
// becomes a text node or an attribute's value. HTML is parsed in tables.js alone, and it is the page's
// own.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}
const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const colour = name => `var(--c-${name})`;

const sum = values => values.reduce((a, b) => a + b, 0);
function scaled(value, units, digits = 3) {
  const [factor, unit] = units.find(([limit]) => Math.abs(value) >= limit) ?? units.at(-1);
  const shown = value / factor;
  const text = Math.abs(shown) >= 1000
    ? Math.round(shown).toLocaleString("en") : Number(shown.toPrecision(digits)).toString();
  return unit ? `${text} ${unit}` : text;
}
const bytes = value => scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
const seconds = value => value === 0 ? "0 s"
  : scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
const count = value => scaled(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]]);
const percent = value => `${(100 * value).toFixed(Math.abs(value) < 0.1 ? 1 : 0)} %`;
const whole = value => Math.round(value).toLocaleString("en");

const several = (number, name) => `${whole(number)} ${name}${number === 1 ? "" : "s"}`;

const keyed = entries => h("ul", { class: "key" }, entries.map(([name, paint]) => {
  const mark = h("i");
  mark.style.background = paint;
  return h("li", {}, mark, name);
}));

/** Buttons of which one is chosen; the arrow keys move between them. */
let choices = 0;
function choice(legend, options, chosen, then) {
  const name = `choice-${choices += 1}`;
  return h("fieldset", { class: "choice" }, h("legend", {}, legend),
    options.map(([value, label]) => h("label", {},
      h("input", {
        type: "radio", name, value, checked: value === chosen, onchange: () => then(value),
      }),
      h("span", {}, label))));
}

/** Makes a chart a slider over its items: arrows, Home, End and page keys choose one. */
function slider(chart, label, length, describe, show) {
  let at = 0;
  const choose = (to, silent) => {
    at = Math.max(0, Math.min(length - 1, to));
    chart.setAttribute("aria-valuenow", at);
    chart.setAttribute("aria-valuetext", describe(at));
    show(at, silent);
  };
  const leap = Math.max(1, Math.round(length / 20));
  const steps = {
    ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: leap, PageDown: -leap,
  };
  fill(chart, {
    tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": 0,
    "aria-valuemax": Math.max(0, length - 1),
    onkeydown: event => {
      if (event.key in steps) choose(at + steps[event.key]);
      else if (event.key === "Home") choose(0);
      else if (event.key === "End") choose(length - 1);
      else return;
      event.preventDefault();
    },
  }, []);
  return choose;
}

/** A place for a drawing that follows the width it is given. */
function drawing(draw) {
  const place = h("div", { class: "scroll" });
  let width = 0;
  const again = () => {
    const now = Math.max(260, Math.floor(place.clientWidth));
    if (now === width) return;
    width = now;
    draw(place, width);
  };
  new ResizeObserver(again).observe(place);
  return { place, again: () => { width = 0; again(); } };
}

/** Text in which `such` words are code. */
const prose = text => text.split("`").map((part, at) => at % 2 ? h("code", {}, part) : part);

/** Lines are shown from the folder on that all of them are in; where they are is their title. */
let folder = "";
function chooseFolder(sources) {
  const paths = [...new Set(sources.filter(Boolean))];
  if (!paths.length) return;
  const parts = paths.map(path => path.split("/").slice(0, -1));
  const same = parts[0].findIndex((part, at) => parts.some(other => other[at] !== part));
  const kept = same < 0 ? Math.min(...parts.map(x => x.length)) : same;
  folder = kept > 1 ? `${parts[0].slice(0, kept).join("/")}/` : "";
}
const short = source => source.startsWith(folder) ? source.slice(folder.length) : source;
const lineCell = source =>
  h("td", { class: "line mono", title: source || undefined }, short(source));

/** On paper, which does not scroll, a drawing shrinks to the width there is. */
const canvas = (width, height) =>
  s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}` });

const title = text => s("title", {}, text);
/** A cell; of a number, `key` is what it is sorted by where its text is no number. */
const cell = (value, number, key) =>
  h("td", { class: number ? "n" : undefined, "data-sort": key }, value);
const heads = names => h("thead", {}, h("tr", {}, names.map(name =>
  h("th", { scope: "col", class: name.startsWith("#") ? "n" : undefined },
    name.replace("#", "")))));
