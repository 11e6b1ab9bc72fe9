// Which chapters are read: a box at the end of each, a mark in the table of contents. The browser
// keeps it, for this site only; where it keeps nothing, the box is not shown.
document.addEventListener("DOMContentLoaded", () => {
  const pages = /\/(notebooks|exercises)\//;
  const key = (url) => "read " + new URL(url, location).pathname.split("/").slice(-2).join("/");
  let kept;
  try {
    kept = window.localStorage;
    kept.getItem("read");
  } catch {
    return;
  }
  const mark = () => {
    for (const link of document.querySelectorAll(".sidebar-tree a.reference.internal")) {
      link.classList.toggle("is-read", kept.getItem(key(link.href)) !== null);
    }
  };
  if (pages.test(location.pathname)) {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.id = "read";
    box.checked = kept.getItem(key(location.href)) !== null;
    box.addEventListener("change", () => {
      if (box.checked) kept.setItem(key(location.href), "yes");
      else kept.removeItem(key(location.href));
      mark();
    });
    const label = document.createElement("label");
    label.htmlFor = "read";
    label.append(" I have read this");
    const line = document.createElement("p");
    line.className = "read-mark";
    line.append(box, label);
    document.querySelector("article").append(line);
  }
  mark();
});
