export type Scalar = string | number | boolean;

/** What a field of the metadata must be. */
export interface FilterOperators {
  $eq?: Scalar;
  $ne?: Scalar;
  $gt?: string | number;
  $gte?: string | number;
  $lt?: string | number;
  $lte?: string | number;
  $in?: readonly Scalar[];
  $nin?: readonly Scalar[];
  $contains?: Scalar;
  $not_contains?: Scalar;
  $exists?: boolean;
  $not?: FilterOperators;
}

/** A `where`: everything in it must hold. */
export interface Filter {
  $and?: readonly Filter[];
  $or?: readonly Filter[];
  $not?: Filter;
  /** There are no others; this makes a misspelt operator an error. */
  [operator: `$${string}`]: readonly Filter[] | Filter | undefined;
  [field: string]: Scalar | FilterOperators | readonly Filter[] | Filter | undefined;
}
