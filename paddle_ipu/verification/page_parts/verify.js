// The table of operators: one group of its columns at a time, and only the rows that matter.

const GROUPS = [
  ["difference", "the difference"], ["range", "their range in half"],
  ["gradient", "the gradients' range"],
];

/** Makes it live; what it gives shows only the operators of a layer, by their numbers. */
function operatorsTable(table) {
  const has = name => table.tHead.querySelector(`[data-group=${name}]`);
  const groups = GROUPS.filter(([name]) => has(name));
  const show = name => {
    table.dataset.shown = name;
    fit(table.parentNode, true);
  };
  const only = h("input", { type: "checkbox", onchange: () => again() });
  const within = h("span");
  let wanted = null;
  const again = live(table, {
    keep: row => (!wanted || wanted.has(row.cells[0].dataset.sort))
      && (!only.checked || "lost" in row.dataset || !/agrees|rounding/.test(row.className)),
    others: [
      h("label", {}, only, " only what differs or does not fit half"),
      choice("columns of", groups, "difference", show), within,
    ],
  });
  show("difference");
  const showWithin = (layer, numbers) => {
    wanted = numbers;
    within.replaceChildren(...layer ? [onlyOf(layer, () => showWithin(null, null))] : []);
    again();
    const section = table.closest("section");
    section.scrollIntoView();
    section.querySelector("input[type=search]")?.focus({ preventScroll: true });
  };
  return showWithin;
}

const operators = document.getElementById("operators-table");
const showOperators = operators ? operatorsTable(operators) : () => {};
const graph = document.getElementById("data");
if (graph)
  driftView(JSON.parse(graph.textContent), document.getElementById("layers"), showOperators);
