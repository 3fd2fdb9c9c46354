/** The Lease of the operator that works, in the system's namespace. */
export const operatorLease = 'rampart-operator';
/** The guards that it runs, with commas between: another operator with others has to wait, and `rampart status` says so. */
export const operatorGuardsAnnotation = 'rampart.dev/operator-guards';
