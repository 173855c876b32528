/* The copy button of a session takes what one types: no prompts, and nothing that was printed. */

/* The lines behind prompts; a line that was typed may go on in those behind `more`. */
function typed(text, prompt, more) {
  const lines = [];
  let typing = false;
  for (const line of text.split("\n")) {
    const goes_on = typing && (more ? line === more.trim() || line.startsWith(more) : lines.at(-1).endsWith("\\"));
    typing = line.startsWith(prompt) || goes_on;
    if (line.startsWith(prompt)) lines.push(line.slice(prompt.length));
    else if (goes_on) lines.push(line.slice(more.length));
  }
  return lines.join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const [language, prompt, more] of [["console", "$ ", ""], ["pycon", ">>> ", "... "]]) {
    for (const block of document.querySelectorAll(`.language-${language}`)) {
      const text = typed(block.querySelector("pre > code").innerText, prompt, more);
      if (text) block.setAttribute("data-copy", text); // mkdocs-material copies that, if it is there
    }
  }
});
