/** The label of objects that Rampart creates. */
export const managedByLabel = 'app.kubernetes.io/managed-by';
export const managedBy = 'rampart';
export const managedLabels = { [managedByLabel]: managedBy } as const;
/** Selects the objects with this label. */
export const managedSelector = `${managedByLabel}=${managedBy}`;
