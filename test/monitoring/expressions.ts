/** The metrics that an expression of Prometheus selects; of a histogram the name without `_bucket`, `_sum` or `_count`. */
export function metricsIn(expr: string): readonly string[] {
  const bare = expr.replaceAll(/"[^"]*"/g, '').replaceAll(/\b(?:by|on) \([^)]*\)/g, '');
  const names = [...bare.matchAll(/(?<![\w$])(up|[a-z]+(?:_[a-z0-9]+)+)(?=[\s{[)]|$)(?!\s*\()/g)].map(
    ([, name = '']) => name.replace(/_(bucket|sum|count)$/, ''),
  );
  return [...new Set(names)];
}
