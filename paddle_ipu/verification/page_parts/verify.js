// The table of operators: one group of its columns at a time, and only the rows that matter.

const GROUPS = [
  ["difference", "the difference"], ["range", "their range in half"],
  ["gradient", "the gradients' range"],
];

function operatorsTable(table) {
  const has = name => table.tHead.querySelector(`[data-group=${name}]`);
  const groups = GROUPS.filter(([name]) => has(name));
  const show = name => {
    table.dataset.shown = name;
    fit(table.parentNode, true);
  };
  const only = h("input", { type: "checkbox", onchange: () => again() });
  const again = live(table, {
    keep: row => !only.checked || "lost" in row.dataset || !/agrees|rounding/.test(row.className),
    others: [
      h("label", {}, only, " only what differs or does not fit half"),
      choice("columns of", groups, "difference", show),
    ],
  });
  show("difference");
}

const operators = document.getElementById("operators-table");
if (operators) operatorsTable(operators);
