//! Limits of all gateways that policies at doors lower. An Envoy has a part of the cluster's limit, which may be larger than the lower
//! number: that one holds beside the part.

use std::collections::BTreeMap;

use portcullis_filter_config::{FlowControlLimit, FlowControlSchema};

/// The limits of tightened rules, those of all gateways with the number to which policies lowered them. `own` are the cluster's.
pub(super) fn bounded(tightened: Vec<FlowControlSchema>, own: &[FlowControlSchema]) -> Vec<FlowControlSchema> {
    let own: BTreeMap<&str, &FlowControlSchema> = own.iter().map(|schema| (schema.name.as_str(), schema)).collect();
    let bound = |schema: FlowControlSchema| match own.get(schema.name.as_str()) {
        Some(own) => FlowControlSchema { at_most: lowered_to(&schema, own), ..schema },
        None => schema,
    };
    tightened.into_iter().map(bound).collect()
}

/// The least number that is lower than the cluster's own.
fn lowered_to(schema: &FlowControlSchema, own: &FlowControlSchema) -> Option<u32> {
    let (global, of_all) = (schema.global?.limit, own.global?.limit);
    let lower = |limit: FlowControlLimit, own: FlowControlLimit| match (limit, own) {
        (FlowControlLimit::MaxRequestsInflight(lower), FlowControlLimit::MaxRequestsInflight(own)) => {
            Some(lower).filter(|lower| *lower < own)
        }
        _ => None,
    };
    lower(schema.limit, own.limit).into_iter().chain(lower(global, of_all)).min()
}

#[cfg(test)]
mod tests {
    use portcullis_filter_config::{CountedRequests, GlobalLimit, GlobalStrategy};

    use super::*;

    fn schema(local: u32, global: Option<u32>) -> FlowControlSchema {
        let global = global.map(|max| GlobalLimit {
            limit: FlowControlLimit::MaxRequestsInflight(max),
            strategy: GlobalStrategy::Count,
        });
        let limit = FlowControlLimit::MaxRequestsInflight(local);
        FlowControlSchema { name: "few".to_owned(), limit, global, at_most: None, counts: CountedRequests::All }
    }

    #[test]
    fn limit_that_a_door_lowers_bounds_the_part() {
        for (own, tightened, expected) in [
            (schema(20, Some(30)), schema(20, Some(30)), None),
            (schema(20, Some(30)), schema(5, Some(30)), Some(5)),
            (schema(20, Some(30)), schema(20, Some(8)), Some(8)),
            (schema(20, Some(30)), schema(5, Some(8)), Some(5)),
            (schema(20, Some(30)), schema(9, Some(8)), Some(8)),
            // Without a part the limit is the Envoy's own.
            (schema(20, None), schema(5, None), None),
        ] {
            let found = bounded(vec![tightened.clone()], std::slice::from_ref(&own));
            assert_eq!(found, [FlowControlSchema { at_most: expected, ..tightened }]);
        }
        let other = FlowControlSchema { name: "other".to_owned(), ..schema(1, Some(2)) };
        assert_eq!(bounded(vec![other.clone()], &[schema(20, Some(30))]), [other]);
    }
}
