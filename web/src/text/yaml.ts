// A document as YAML, for people and for `divvy submit -f`. Writes only, and only what JSON has.

const plain = /^[A-Za-z_./][A-Za-z0-9_./@+-]*$/;
const reserved = /^(true|false|yes|no|on|off|null|~|y|n)$/i;

function scalar(value: unknown): string {
  if (typeof value === 'string') {
    return plain.test(value) && !reserved.test(value) ? value : JSON.stringify(value);
  }
  return JSON.stringify(value);
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function isFlat(value: unknown[]): boolean {
  return value.every((one) => typeof one !== 'object' || one === null);
}

/** Ends with a line end. Lists of plain values are on one line. */
export function yaml(value: unknown, indent = ''): string {
  if (Array.isArray(value)) {
    return value
      .map((one) => {
        if (typeof one !== 'object' || one === null || isEmpty(one)) {
          return `${indent}- ${inline(one)}\n`;
        }
        return `${indent}- ${yaml(one, `${indent}  `).slice(indent.length + 2)}`;
      })
      .join('');
  }
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value)
      .filter(([, one]) => one !== undefined)
      .map(([name, one]: [string, unknown]) => {
        if (typeof one !== 'object' || one === null || isEmpty(one)) {
          return `${indent}${scalar(name)}: ${inline(one)}\n`;
        }
        if (Array.isArray(one) && isFlat(one)) {
          return `${indent}${scalar(name)}: [${one.map(scalar).join(', ')}]\n`;
        }
        return `${indent}${scalar(name)}:\n${yaml(one, `${indent}  `)}`;
      })
      .join('');
  }
  return `${indent}${scalar(value)}\n`;
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return '[]';
  return isEmpty(value) ? '{}' : scalar(value);
}
