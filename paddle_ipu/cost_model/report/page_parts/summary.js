// What to know first: the numbers, where a weight update's time goes, the settings; insights.

const PHASES = { fill: "constants", steady: "forward", drain: "code", update: "update", host: "streams" };

const TOGETHER = "None of them is enough by itself: `paddle-ipu plan` tries several together.";

function summaryView(report, section) {
  const { program, memory, cycles } = report, worst = fullest(report), unit = unitOf(report);
  const share = worst.tile.peak / worst.tile.capacity, { interval } = report;
  const tile = (key, value, name, kind) => h("a", {
    class: `tile ${kind ?? ""}`, href: `#how-${key}`, title: "how it is computed",
  }, h("b", {}, value), h("span", {}, name));
  section.append(h("div", { class: "tiles" },
    tile("throughput", whole(report.throughput), interval?.low
      ? `rows a second; 80 % of the belief: ${whole(interval.low)} to ${whole(interval.high)}` : "rows a second"),
    report.latency ? tile("latency", seconds(report.latency), `latency of ${several(program.rows, "row")}`)
      : tile("update", seconds(cycles.update / report.machine.processor.clock), `a ${unit}, on the IPUs`),
    tile("utilisation", percent(report.utilisation), "of the matrix units' peak"),
    tile("bubble", percent(report.bubble), "waiting: bubble and imbalance"),
    tile("memory", percent(share), memory.fits ? `of IPU ${worst.ipu}'s fullest tile: it fits`
      : `of IPU ${worst.ipu}'s fullest tile: it lacks ${bytes(worst.over)}`,
      memory.fits ? "good" : "bad")));
  section.append(h("h3", {}, `Where the time of a ${unit} goes`), phases(report));
  if (report.serving) section.append(h("p", { class: "note" }, served(report.serving)));
  const unpriced = Object.entries(report.unpriced);
  if (unpriced.length) section.append(h("p", { class: "note" },
    `Without a cost row, priced by the bytes they read and write: ${
      unpriced.map(([name, times]) => `${name} (${times})`).join(", ")}.`));
  section.append(h("h3", {}, "Program and machine"), facts(report));
}

function served({ requests, largest, busy, percentiles }) {
  const times = percentiles.map(([share, time]) => `${percent(share)} within ${seconds(time)}`).join(", ");
  return `${whole(requests)} requests a second, of a row each: ${times
    ? `${times}; a run is under way ${percent(busy)} of the time` : "too many, the queue grows or hardly shrinks"
  }. At most ${whole(largest)} a second are answered.`;
}

function phases(report) {
  const clock = report.machine.processor.clock;
  const host = report.host_seconds * clock / report.program.settings.batches_per_step;
  const entries = [...Object.entries(report.cycles.phases), ["host", host]].filter(([, value]) => value > 0);
  const all = sum(entries.map(([, value]) => value)) || 1;
  const bar = h("div", { role: "img", "aria-label": entries.map(([name, value]) =>
    `${name} ${percent(value / all)}`).join(", ") });
  Object.assign(bar.style, {
    display: "flex", height: "1.4rem", gap: "2px", borderRadius: "5px", overflow: "hidden",
  });
  for (const [name, value] of entries) {
    const part = h("div", { title: `${name} ${percent(value / all)}` });
    Object.assign(part.style, {
      flex: `${value / all} 1 0`, minWidth: "2px", background: colour(PHASES[name] ?? "code"),
    });
    bar.append(part);
  }
  return h("div", {}, bar, keyed(entries.map(([name, value]) => [
    `${{ update: "weight update", host: "host's call" }[name] ?? name} ${percent(value / all)}, ${
      seconds(value / clock)}`, colour(PHASES[name] ?? "code")])));
}

function facts(report) {
  const { program, machine } = report, settings = program.settings;
  const perReplica = Math.max(1, Math.floor(settings.ipus / Math.max(1, settings.replicas)));
  const list = rows => h("dl", { class: "facts" }, rows.filter(([, value]) => value !== "")
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
  return h("div", { class: "pair" },
    list([
      ["machine", `${machine.name}: ${several(machine.ipus, "IPU")}, ${machine.processor.name}`],
      ["tiles of an IPU", `${machine.processor.tiles} at ${count(machine.processor.clock)}Hz`],
      ["memory of an IPU", bytes(machine.processor.tiles * machine.processor.tile_memory)],
      ["IPUs used", `${settings.ipus}: ${perReplica} a replica, ${several(settings.replicas, "replica")}`],
      ["streaming memory", report.memory.off_chip
        ? `${bytes(report.memory.off_chip)} of a replica` : "none"],
    ]),
    list([
      ["program", settings.training ? `training, ${program.rule || "no rule"}` : "inference"],
      ["operators", whole(program.operators)],
      ["elements of weights", count(program.weights)],
      ["micro-batch", several(program.rows, "row")],
      ["accumulation factor", settings.training ? whole(settings.accumulation) : ""],
      ["rows of a run", whole(program.samples)],
      ["recomputation", settings.training ? settings.recomputation : ""],
    ]));
}

function insightsView(report, section) {
  const { fits, worst } = report.memory;
  const list = rows => h("ul", { class: "insights" }, rows);
  const row = (insight, kind, head, small, ...more) => h("li", { class: kind },
    h("div", { class: "gain" }, head, h("small", {}, small)),
    h("div", {}, prose(insight.change), more),
    insight.option ? h("code", {}, `strategy.set_options({${insight.option}})`) : h("span"));
  if (!fits) section.append(h("h3", {}, "To make it fit"), report.advice.length
    ? list(report.advice.map(x => row(x, "", `−${bytes(x.saves)}`, `of IPU ${worst}`,
      x.fits ? h("b", {}, "; it fits then") : "")))
    : h("p", {}, "None of the changes that were tried saves memory: place layers on more IPUs."));
  if (!fits && report.advice.length && !report.advice.some(x => x.fits))
    section.append(h("p", {}, prose(TOGETHER)));
  if (!fits || report.insights.length)
    section.append(h("h3", {}, fits ? "To make it faster" : "To make it faster, once it fits"));
  section.append(report.insights.length ? list(report.insights.map(x => row(x,
    x.fits ? "" : "no",
    x.gain < 1 ? `+${percent(x.gain)}` : `× ${(1 + x.gain).toFixed(1)}`,
    `${x.bound ? "at most " : ""}${whole(x.throughput)} rows/s`,
    x.memory > 0 ? `; ${bytes(x.memory)} more memory of an IPU` : "",
    x.latency ? `; latency ${seconds(x.latency)}` : "",
    x.memory < 0 ? `; ${bytes(-x.memory)} less memory of an IPU` : "",
    fits && !x.fits ? h("span", { class: "cost" }, "; does not fit") : "")))
    : h("p", {}, "None of the changes that were tried gains 1 % or more."));
}
