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

/** What the id of a document must be. */
export interface IdOperators {
  $eq?: string;
  $ne?: string;
  $in?: readonly string[];
  $nin?: readonly string[];
}

/** What the text of a document must be. */
export interface TextOperators {
  $contains?: string;
  $not_contains?: string;
  /** As Rust has them. */
  $regex?: string;
  $not_regex?: string;
}

/** A `where`: everything in it must hold. */
export interface Filter {
  $and?: readonly Filter[];
  $or?: readonly Filter[];
  $not?: Filter;
  $id?: string | IdOperators;
  $text?: TextOperators;
  /** There are no others; this makes a misspelt operator an error. */
  [operator: `$${string}`]: readonly Filter[] | Filter | string | IdOperators | TextOperators | undefined;
  [field: string]: Scalar | FilterOperators | IdOperators | TextOperators | readonly Filter[] | Filter | undefined;
}
