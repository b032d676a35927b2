// Reads the report that the page carries and draws every view.

const report = JSON.parse(document.getElementById("report").textContent);

function start() {
  const nodes = nodesOf(report);
  const lines = new Map(nodes.map(node => [node.name, node]));
  chooseFolder(nodes.map(node => node.source));
  const views = {
    summary: summaryView, insights: insightsView, memory: memoryView,
    liveness: (found, section) => livenessView(found, section, lines), timeline: timelineView,
    operators: (found, section) => operatorsView(found, section, nodes), roofline: rooflineView,
    ...report.measured ? { measured: (found, section) => measuredView(found, section, nodes) } : {},
  };
  for (const [name, view] of Object.entries(views))
    view(report, document.getElementById(name));
  theme();
  follow();
}

/** Marks the section that is read in the navigation. */
function follow() {
  const links = new Map([...document.querySelectorAll("nav a")].map(link =>
    [link.getAttribute("href").slice(1), link]));
  const seen = new Map();
  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
    const first = [...links.keys()].find(name => seen.get(name));
    for (const [name, link] of links)
      if (name === first) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
  }, { rootMargin: "-60px 0px -40% 0px" });
  for (const name of links.keys()) watcher.observe(document.getElementById(name));
}

function theme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = dark() ? "light colours" : "dark colours"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  label();
}

start();
