use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Documents by the name of their object.
pub(super) type Documents = BTreeMap<String, Arc<Value>>;
