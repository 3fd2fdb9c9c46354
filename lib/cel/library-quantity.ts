/** `quantity()`, `isQuantity()` and their methods (apiserver `pkg/cel/library/quantity.go`). */
import { Quantity } from './quantity.ts';
import { failure } from './failure.ts';
import type { Library } from './register.ts';

const notAQuantity =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

export function addQuantities(library: Library): void {
  library
    .type('kubernetes.Quantity', Quantity)
    .add('isQuantity(string): bool', (text: string) => Quantity.parse(text) !== undefined)
    .add('quantity(string): kubernetes.Quantity', (text: string) => {
      const quantity = Quantity.parse(text);
      if (quantity === undefined) throw failure(notAQuantity);
      return quantity;
    })
    .add('kubernetes.Quantity.sign(): int', (a: Quantity) => a.compareTo(new Quantity(0n)))
    .add(
      'kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool',
      (a: Quantity, b: Quantity) => a.nanos > b.nanos,
    )
    .add(
      'kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool',
      (a: Quantity, b: Quantity) => a.nanos < b.nanos,
    )
    .add('kubernetes.Quantity.compareTo(kubernetes.Quantity): int', (a: Quantity, b: Quantity) =>
      a.compareTo(b),
    )
    .add('kubernetes.Quantity.isInteger(): bool', (a: Quantity) => a.integer !== undefined)
    .add('kubernetes.Quantity.asInteger(): int', (a: Quantity) => {
      const value = a.integer;
      if (value === undefined) throw failure('cannot convert value to integer');
      return value;
    })
    .add('kubernetes.Quantity.asApproximateFloat(): double', (a: Quantity) => a.float)
    .add(
      'kubernetes.Quantity.add(kubernetes.Quantity): kubernetes.Quantity',
      (a: Quantity, b: Quantity) => new Quantity(a.nanos + b.nanos),
    )
    .add(
      'kubernetes.Quantity.add(int): kubernetes.Quantity',
      (a: Quantity, b: bigint) => new Quantity(a.nanos + Quantity.ofInteger(b).nanos),
    )
    .add(
      'kubernetes.Quantity.sub(kubernetes.Quantity): kubernetes.Quantity',
      (a: Quantity, b: Quantity) => new Quantity(a.nanos - b.nanos),
    )
    .add(
      'kubernetes.Quantity.sub(int): kubernetes.Quantity',
      (a: Quantity, b: bigint) => new Quantity(a.nanos - Quantity.ofInteger(b).nanos),
    );
}
