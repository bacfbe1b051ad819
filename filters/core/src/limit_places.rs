use std::collections::BTreeMap;

use portcullis_filter_config::Policy;

/// The place of each policy's limit among all names of limits. The first one of a name counts.
pub(crate) fn limit_places<'c>(policies: &[Policy], names: impl Iterator<Item = &'c str>) -> Vec<Option<usize>> {
    let mut places = BTreeMap::new();
    for (place, name) in names.enumerate() {
        places.entry(name).or_insert(place);
    }
    let place = |policy: &Policy| places.get(policy.flow_control_schema.as_deref()?).copied();
    policies.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn of(schema: Option<&str>) -> Policy {
        Policy { flow_control_schema: schema.map(str::to_owned), ..Policy::default() }
    }

    #[test]
    fn limit_is_found_by_its_first_place() {
        let names = ["a", "b", "a", ""];
        let policies = [Some("a"), Some("b"), Some("c"), Some(""), None].map(of);
        assert_eq!(limit_places(&policies, names.into_iter()), [Some(0), Some(1), None, Some(3), None]);
    }

    /// Owners of clusters write both lists.
    #[test]
    fn names_of_limits_are_read_once_for_all_policies() {
        let names: Vec<String> = (0..1_000).map(|n| format!("limit-{n}")).collect();
        let policies = vec![of(Some("limit-999")); 20_000];
        let read = Cell::new(0);
        let names = names.iter().map(String::as_str).inspect(|_| read.set(read.get() + 1));
        let places = limit_places(&policies, names);
        assert_eq!((places.len(), places.last(), read.get()), (20_000, Some(&Some(999)), 1_000));
    }
}
