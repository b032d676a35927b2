// The last of a page's scripts: what is there by now is made live.

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

for (const table of document.querySelectorAll("section table:not([data-live])")) live(table);
theme();
follow();
for (const box of document.querySelectorAll(".scroll")) boxes.observe(box);
