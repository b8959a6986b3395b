// xterm.js writes style elements and style attributes, which the console's policy forbids (style-src
// 'self'), as it forbids those of anybody who got markup into a page. Here it gets a document in which
// the same calls lead to what a policy has nothing against: style sheets that a script adopts, and
// properties that a script sets.

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

function makerFor(real: Document): Create {
  const create: Create = (name) => Reflect.apply(Document.prototype.createElement, real, [name]) as HTMLElement;
  return (name) => {
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

/** The document, with elements that keep to the policy. */
export function quietDocument(real: Document): Document {
  const make = makerFor(real);
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') return make;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Some parts of xterm.js take the page's own document, whatever they are given; while `work` runs
 * that one keeps to the policy, too. */
export function quietly(real: Document, work: () => void): void {
  const own = real as { createElement?: unknown };
  own.createElement = makerFor(real);
  try {
    work();
  } finally {
    delete own.createElement;
  }
}
