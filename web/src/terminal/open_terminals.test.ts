import { expect, it } from 'vitest';
import { tooManyEnded } from './open_terminals';

it('keeps the terminals that ended last, to be read', () => {
  expect(tooManyEnded([])).toEqual([]);
  expect(tooManyEnded(['1.0', '2.0', '3.0', '4.0'])).toEqual([]);
  expect(tooManyEnded(['1.0', '2.0', '3.0', '4.0', '5.0', '6.0'])).toEqual(['1.0', '2.0']);
});
