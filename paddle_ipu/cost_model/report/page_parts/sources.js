// Where each figure comes from: how those of the summary are computed, from which figures of the
// machine and which constants, and what the rate hangs on.

/** [key, name, value, how]: of each figure of the summary, with links to what it is made of. */
function computed(report) {
  const { program, memory, cycles, machine, pipeline } = report, { settings } = program;
  const { processor } = machine, worst = fullest(report);
  const link = (to, ...text) => h("a", { href: `#${to}` }, ...text);
  const figure = name => link(`figure-${name}`, h("code", {}, name));
  const runs = settings.training ? settings.accumulation : 1;
  const ipus = Math.max(1, Math.floor(settings.ipus / Math.max(1, settings.replicas)));
  const update = sum(Object.values(cycles.weight_update)), unit = unitOf(report);
  const flops = sum(pipeline.stages.map(stage => stage.forward.flops + stage.backward.flops));
  const busy = sum(pipeline.stages.map(stage => stage.cycles));
  const code = (worst.categories.code ?? 0) / processor.tiles;
  const { interval } = report;
  return [
    ["throughput", "rows a second", whole(report.throughput), [
      `${whole(program.samples)} rows of a run ÷ ${seconds(report.seconds)}, its `,
      link("how-update", `${whole(cycles.run)} cycles`), ` ÷ ${count(processor.clock)}Hz, the `,
      figure("clock"), `, and ${seconds(report.host_seconds)} of the host, `, figure("run_seconds"), ...interval?.low ? [`. 80 % of the belief lies between ${
        whole(interval.low)} and ${whole(interval.high)}, by `, link("figures", "what it hangs on"),
        `; predictions were checked ${interval.checked}`] : [],
      "."]],
    ["update", `a ${unit}`, seconds(cycles.update / processor.clock), [
      `${whole(cycles.update)} cycles: ${Object.entries(cycles.phases).filter(([, value]) => value)
        .map(([name, value]) => `${PHASE_NAMES[name] ?? name} ${whole(value)}`).join(", ")}; see the `,
      link("timeline", "timeline"), `. A steady cycle is as long as the slowest stage, with ${
        whole(cycles.copies)} cycles of copies between IPUs; a stage's are those of its `,
      link("operators", "operators"), "."]],
    ...report.latency ? [["latency", `latency of ${several(program.rows, "row")}`,
      seconds(report.latency), [`${pipeline.stages.length > 1 && settings.pipelined
        ? `${several(pipeline.stages.length, "steady cycle")}, one for each stage,` : "all cycles of a micro-batch"} ÷ the `,
      figure("clock"), ", and the host's ", figure("run_seconds"), "."]]] : [],
    ["utilisation", "of the matrix units' peak", percent(report.utilisation), [
      `${count(flops)}FLOP of products, forward and backward, × ${whole(runs)} ÷ what ${
        several(ipus, "IPU")} could do in the cycles of a ${unit}: `, figure("half_macs"), ", ",
      figure("tiles"), ". What is computed again does not count; the ", link("roofline", "roofline"),
      " has each product."]],
    ["bubble", "waiting: bubble and imbalance", percent(report.bubble), [
      `1 − ${whole(busy)} cycles of work in all `, link("timeline", "stages"), ` × ${
        whole(runs)} ÷ (${several(ipus, "IPU")} × ${whole(cycles.update - update)} cycles outside of weight updates).`]],
    ["memory", `IPU ${worst.ipu}'s fullest tile`, `${bytes(worst.tile.peak)} of ${bytes(worst.tile.capacity)}`, [
      `(${bytes(worst.peak)} `, link("memory", "at the peak"), ` − code) ÷ ${whole(processor.tiles)} tiles × ${
        report.constants.tile_imbalance} (`, figure("tile_imbalance"), `) + ${bytes(code)} of code (`,
      figure("code_bytes_per_set"), "). When the peak is, the ", link("liveness", "liveness curve"), " shows."]],
  ];
}

const PHASE_NAMES = { update: "weight update" };
const unitOf = report => report.program.settings.training ? "weight update" : "run";

/** The IPU whose fullest tile is the fullest of all. */
const fullest = ({ memory }) => memory.ipus.reduce((a, b) =>
  a.tile.peak / a.tile.capacity >= b.tile.peak / b.tile.capacity ? a : b);

function sourcesView(report, section) {
  section.append(h("dl", { class: "how" }, computed(report).map(([key, name, value, how]) => [
    h("dt", { id: `how-${key}` }, `${value} ${name}`), h("dd", {}, how)])));
  const influences = new Map((report.interval?.influences ?? []).map(x => [x.name, x]));
  const change = rate => `${rate >= 1 ? "+" : "−"}${percent(Math.abs(rate - 1))}`;
  const reach = found => found ? Math.max(...found.rates.map(rate => Math.abs(Math.log(rate)))) : 0;
  const rows = report.sources.rows.map(([name, value, kind, source]) =>
    ({ name, value, kind, source, found: influences.get(name) }))
    .sort((a, b) => reach(b.found) - reach(a.found));
  section.append(h("h3", { id: "figures" }, "Figures, and what the rate hangs on"),
    h("p", { class: "lead" }, "Of uncertain figures, what the rate would be with the least and the "
      + "most that is believed of them; nothing stands where that changes less than 0.1 %."));
  const table = h("table", {},
    heads(["figure", "#value", "kind", "where it comes from", "#rate with the least", "#with the most"]),
    h("tbody", {}, rows.map(({ name, value, kind, source, found }) => h("tr", { id: `figure-${name}` },
      h("td", { class: "mono" }, name), cell(Math.abs(value) >= 1e5 ? count(value) : String(value), true, value),
      cell(kind), cell(source),
      ...[0, 1].map(at => cell(found ? `${change(found.rates[at])} (× ${found.factors[at]})` : "", true,
        found ? found.rates[at] : ""))))));
  section.append(h("div", { class: "scroll" }, table));
  // All of them at once: links lead to each.
  live(table, { most: Infinity });
}
