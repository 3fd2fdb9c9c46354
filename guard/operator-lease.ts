/** The Lease of the leading operator, in the system's namespace. */
export const operatorLease = 'rampart-operator';
