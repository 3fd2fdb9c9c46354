/** The Lease of the operator that works, in the system's namespace. */
export const operatorLease = 'rampart-operator';
