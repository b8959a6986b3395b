// What GPU hours cost: a price for each model of GPU, which stays in the browser. Pure, but for the two
// that keep it.
import type { Gpu } from '../api/types';

/** By model; those that are missing or no positive number cost nothing that is known. */
export type Prices = Record<string, string>;

const name = 'divvy-prices';

export function readPrices(): Prices {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(name) ?? '{}');
    if (typeof kept !== 'object' || kept === null) return {};
    return Object.fromEntries(Object.entries(kept).filter((one): one is [string, string] => typeof one[1] === 'string'));
  } catch {
    return {};
  }
}

export function keepPrices(prices: Prices): void {
  const named = Object.entries(prices).filter(([, price]) => price !== '');
  if (named.length === 0) localStorage.removeItem(name);
  else localStorage.setItem(name, JSON.stringify(Object.fromEntries(named)));
}

export function priceOf(prices: Prices, model: string): number | undefined {
  const price = Number((prices[model] ?? '').replace(',', '.'));
  return price > 0 && Number.isFinite(price) ? price : undefined;
}

export interface MeanPrice {
  price: number;
  /** All GPUs cost the same, so that nothing is guessed. */
  isExact: boolean;
}

/** Of an hour of some GPU of these: what was used long ago is not recorded by model. Nothing as long
 * as one of them has no price. */
export function meanPrice(prices: Prices, gpus: readonly Pick<Gpu, 'model'>[]): MeanPrice | undefined {
  let sum = 0;
  const all = new Set<number>();
  for (const { model } of gpus) {
    const price = priceOf(prices, model);
    if (price === undefined) return undefined;
    sum += price;
    all.add(price);
  }
  return gpus.length === 0 ? undefined : { price: sum / gpus.length, isExact: all.size === 1 };
}

export const modelsOf = (gpus: readonly Pick<Gpu, 'model'>[]): string[] => [...new Set(gpus.map((gpu) => gpu.model))].sort();

export function money(amount: number): string {
  return amount.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

/** The daemon's table with two columns more: what was held cost so much, and what of it was not used. */
export function withCost(csv: string, price: number): string {
  return csv.split('\n').map((line, i) => {
    if (line === '') return line;
    if (i === 0) return `${line},cost,cost_unused`;
    // The name comes first and may have commas; all others are numbers.
    const cells = line.split(',');
    const held = Number(cells.at(-4));
    const used = Number(cells.at(-3));
    return `${line},${(held * price).toFixed(2)},${(Math.max(0, held - used) * price).toFixed(2)}`;
  }).join('\n');
}
