// xterm.js writes style elements and style attributes, which the console's policy forbids (style-src
// 'self'), as it forbids those of whoever got markup into a page. From here on the same calls lead to
// what a policy has nothing against: style sheets that a script adopts, and properties that a script
// sets. The page's own document has to do it, because parts of xterm.js take that one whatever they
// are given; Preact does not come here (it calls createElementNS).

const html = 'http://www.w3.org/1999/xhtml';

type Create = (name: string) => HTMLElement;

function sheetElement(real: Document, create: Create): HTMLElement {
  const sheet = new CSSStyleSheet();
  real.adoptedStyleSheets.push(sheet);
  const element = create('span');
  element.hidden = true;
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    real.adoptedStyleSheets = real.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

export function keepToPolicy(real: Document): void {
  const create: Create = (name) => real.createElementNS(html, name);
  (real as { createElement: Create }).createElement = (asked) => {
    const name = asked.toLowerCase();
    if (name === 'style') return sheetElement(real, create);
    const element = create(name);
    // Only those get attributes of style.
    if (name !== 'span') return element;
    element.setAttribute = (attribute: string, value: string) => {
      if (attribute === 'style') element.style.cssText = value;
      else Element.prototype.setAttribute.call(element, attribute, value);
    };
    return element;
  };
}
