// Parts of a page are laid out when they come near (book.css), so above a place where a link leads
// nobody knows yet how high they are. Then all of the page is laid out, and the link lands.
const layOut = () => document.documentElement.classList.add("laid-out");
if (location.hash) layOut();
document.addEventListener("click", (event) => {
  if (event.target.closest('a[href*="#"]')) layOut();
}, true);
window.addEventListener("hashchange", layOut);
// The fonts of formulas that nobody has come near yet: else they would be missing on paper.
window.addEventListener("load", () => document.fonts.forEach((font) => font.load()));
