import { expect, it } from 'vitest';
import { meanPrice, modelsOf, money, priceOf, withCost } from './cost';

const gpus = [{ model: 'H200' }, { model: 'H200' }, { model: 'H200' }, { model: 'L4' }];

it('takes prices as people write them', () => {
  expect(priceOf({ H200: '2.50' }, 'H200')).toBe(2.5);
  expect(priceOf({ H200: '2,50' }, 'H200')).toBe(2.5);
  for (const text of ['', '0', '-1', 'much', 'Infinity']) expect(priceOf({ H200: text }, 'H200')).toBeUndefined();
  expect(priceOf({}, 'H200')).toBeUndefined();
});

it('knows the mean of a fleet only where every model has a price', () => {
  expect(meanPrice({ H200: '3', L4: '1' }, gpus)).toEqual({ price: 2.5, isExact: false });
  expect(meanPrice({ H200: '3', L4: '3' }, gpus)).toEqual({ price: 3, isExact: true });
  expect(meanPrice({ H200: '3' }, gpus)).toBeUndefined();
  expect(meanPrice({ H200: '3' }, [])).toBeUndefined();
  expect(modelsOf(gpus)).toEqual(['H200', 'L4']);
});

it('adds what it cost to the table of the daemon', () => {
  const csv = 'user,jobs,gpu_hours_held,gpu_hours_used,memory_gib_hours,cpu_hours\nada,2,10.5,4,1.000,0.500\n"a, b",1,2,3,0.000,0.000\n';
  expect(withCost(csv, 2)).toBe(
    'user,jobs,gpu_hours_held,gpu_hours_used,memory_gib_hours,cpu_hours,cost,cost_unused\nada,2,10.5,4,1.000,0.500,21.00,13.00\n"a, b",1,2,3,0.000,0.000,4.00,0.00\n',
  );
  expect(money(1234.5)).toBe('1,234.50');
});
