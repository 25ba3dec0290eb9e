/* Makes a page of the site ready for the PDF. Hints and solutions move to its end, opened; every place that a link of the
   book leads to is named, since Chromium notes a place in a PDF only if the page itself has a link to it. */
({places, words}) => {
  const chapter = document.querySelector("article > section");
  const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), {textContent: text}, props);
  const answers = make("section", "");
  for (const section of chapter.querySelectorAll("section")) {
    const folds = section.querySelectorAll(":scope > details.hint, :scope > .cell.tag_solution");
    if (!folds.length) continue;
    const title = section.querySelector("h1, h2, h3, h4").cloneNode(true);
    title.querySelectorAll(".headerlink").forEach(link => link.remove());
    const heading = make("h3", ""), back = make("a", "", {href: `#${section.id}`});
    heading.id = `answers-${section.id}`;
    back.append(...title.childNodes);
    heading.append(back);
    answers.append(heading);
    const see = make("p", "");
    see.append(make("a", words.see, {href: `#${heading.id}`}));
    folds[0].before(see);
    answers.append(...folds);
  }
  if (answers.children.length) {
    answers.id = "hints-and-solutions";
    answers.prepend(make("h2", words.answers));
    answers.querySelectorAll("details").forEach(fold => (fold.open = true));
    chapter.append(answers);
  }
  const sections = [...chapter.querySelectorAll("section[id]")];
  const list = make("nav", "", {hidden: true});
  for (const id of new Set([...places, ...sections.map(section => section.id)]))
    list.append(make("a", "", {href: `#${id}`}));
  document.querySelector("article").append(list);
  dispatchEvent(new Event("attnbook-show-all"));
  const text = heading => {
    const copy = heading.cloneNode(true);
    copy.querySelectorAll(".headerlink").forEach(link => link.remove());
    return copy.textContent.trim();
  };
  return {
    title: text(chapter.querySelector("h1")),
    sections: sections.filter(s => s.parentElement === chapter).map(s => [s.id, text(s.querySelector("h2") ?? s)]),
  };
}
