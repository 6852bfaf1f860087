// Colour scheme. It is applied before the page is drawn, so that nothing flashes.
(() => {
  const KEY = "cofferdam-theme";
  const ORDER = ["auto", "light", "dark"];
  const read = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto";
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = ORDER.includes(read()) ? read() : "auto";
  const apply = () => {
    const scheme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    document.documentElement.dataset.theme = scheme;
    const button = document.getElementById("theme");
    if (button) {
      const name = { auto: "Auto", light: "Light", dark: "Dark" }[chosen];
      button.textContent = name;
      button.setAttribute("aria-label", `${name} colours`);
    }
    document.dispatchEvent(new Event("theme"));
  };
  window.nextTheme = () => {
    chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      /* a private window does not store it */
    }
    apply();
  };
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  apply();
})();
