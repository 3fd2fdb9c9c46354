/**
 * `quantity()`, `isQuantity()` and what can be done with one (apiserver `pkg/cel/library/quantity.go`).
 *
 * @module
 */
import { Quantity } from './quantity.ts';
import { failure } from './failure.ts';
import type { Library } from './register.ts';

const notAQuantity =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

export function addQuantities(library: Library): void {
  library
    .type('K8sQuantity', Quantity)
    .add('isQuantity(string): bool', (text: string) => Quantity.parse(text) !== undefined)
    .add('quantity(string): K8sQuantity', (text: string) => {
      const quantity = Quantity.parse(text);
      if (quantity === undefined) throw failure(notAQuantity);
      return quantity;
    })
    .add('K8sQuantity.sign(): int', (a: Quantity) => a.compareTo(new Quantity(0n)))
    .add('K8sQuantity.isGreaterThan(K8sQuantity): bool', (a: Quantity, b: Quantity) => a.nanos > b.nanos)
    .add('K8sQuantity.isLessThan(K8sQuantity): bool', (a: Quantity, b: Quantity) => a.nanos < b.nanos)
    .add('K8sQuantity.compareTo(K8sQuantity): int', (a: Quantity, b: Quantity) => a.compareTo(b))
    .add('K8sQuantity.isInteger(): bool', (a: Quantity) => a.integer !== undefined)
    .add('K8sQuantity.asInteger(): int', (a: Quantity) => {
      const value = a.integer;
      if (value === undefined) throw failure('cannot convert value to integer');
      return value;
    })
    .add('K8sQuantity.asApproximateFloat(): double', (a: Quantity) => a.float)
    .add(
      'K8sQuantity.add(K8sQuantity): K8sQuantity',
      (a: Quantity, b: Quantity) => new Quantity(a.nanos + b.nanos),
    )
    .add(
      'K8sQuantity.add(int): K8sQuantity',
      (a: Quantity, b: bigint) => new Quantity(a.nanos + Quantity.ofInteger(b).nanos),
    )
    .add(
      'K8sQuantity.sub(K8sQuantity): K8sQuantity',
      (a: Quantity, b: Quantity) => new Quantity(a.nanos - b.nanos),
    )
    .add(
      'K8sQuantity.sub(int): K8sQuantity',
      (a: Quantity, b: bigint) => new Quantity(a.nanos - Quantity.ofInteger(b).nanos),
    );
}
