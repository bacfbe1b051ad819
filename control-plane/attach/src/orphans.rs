//! Gateways whose `GatewayClass` is gone, or is another controller's by now.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_gateway_api::Gateway;
use serde_json::{Value, json};

use crate::CONTROLLER_NAME;
use crate::input::GatewayObjects;
use crate::name::ObjectName;

/// The domain of this controller's own types of conditions.
const OWN_DOMAIN: &str = "portcullis.dev/";

impl GatewayObjects {
    /// The Gateways whose class is not there. Each may be any controller's.
    pub fn without_class(&self) -> impl Iterator<Item = &Gateway> {
        let classes = self.controllers();
        self.gateways.iter().filter(move |one| !classes.contains_key(one.spec.gateway_class_name.as_str()))
    }

    /// The Gateways of other controllers' classes.
    pub(crate) fn of_other_controllers(&self) -> BTreeSet<ObjectName> {
        let classes = self.controllers();
        let is_other = |one: &&Gateway| {
            classes.get(one.spec.gateway_class_name.as_str()).is_some_and(|controller| *controller != CONTROLLER_NAME)
        };
        self.gateways.iter().filter(is_other).map(|one| ObjectName::of(&one.metadata)).collect()
    }

    /// The controllers of classes, by the names of these.
    fn controllers(&self) -> BTreeMap<&str, &str> {
        let named =
            self.classes.iter().map(|class| (class.metadata.name.as_str(), class.spec.controller_name.as_str()));
        named.collect()
    }
}

/// Whether the status of a Gateway has a condition of this controller's own domain, at the Gateway or at a listener.
pub fn has_own_conditions(status: &Value) -> bool {
    let listeners = status.get("listeners").and_then(Value::as_array).into_iter().flatten();
    std::iter::once(status).chain(listeners).flat_map(conditions_in).any(is_own)
}

/// The lists of a Gateway's status that have conditions of this controller's own domain, without these. `None` if there is none: the
/// status is another controller's.
pub fn without_own_conditions(status: &Value) -> Option<Value> {
    let mut lists = serde_json::Map::new();
    if conditions_in(status).any(is_own) {
        lists.insert("conditions".to_owned(), others_in(status));
    }
    let listeners = status.get("listeners").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if listeners.iter().flat_map(conditions_in).any(is_own) {
        let without = |listener: &Value| {
            let mut listener = listener.clone();
            let others = others_in(&listener);
            if let Some(conditions) = listener.get_mut("conditions") {
                *conditions = others;
            }
            listener
        };
        lists.insert("listeners".to_owned(), listeners.iter().map(without).collect());
    }
    (!lists.is_empty()).then_some(Value::Object(lists))
}

fn conditions_in(part: &Value) -> impl Iterator<Item = &Value> {
    part.get("conditions").and_then(Value::as_array).into_iter().flatten()
}

fn others_in(part: &Value) -> Value {
    json!(conditions_in(part).filter(|one| !is_own(one)).collect::<Vec<_>>())
}

fn is_own(condition: &Value) -> bool {
    condition.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with(OWN_DOMAIN))
}
