use std::collections::BTreeMap;

use portcullis_filter_config::Policy;

/// The servers and the limit of each policy as a number, so that those of two lists are compared by it: a new policy before the
/// others changes the number of each, and nothing for their requests.
#[derive(Debug)]
pub(super) struct Treatments {
    real: Box<[u32]>,
    shadow: Box<[u32]>,
}

impl Treatments {
    pub(super) fn of(real: &[Policy], shadow: &[Policy]) -> Self {
        let mut known = BTreeMap::new();
        let mut number = |policy: &Policy| {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            *known.entry((policy.group.clone(), policy.flow_control_schema.clone())).or_insert(next)
        };
        let real = real.iter().map(&mut number).collect();
        Treatments { real, shadow: shadow.iter().map(number).collect() }
    }

    /// Whether both policies send a request to the same servers under the same limit.
    pub(super) fn are_same(&self, real: Option<usize>, shadow: Option<usize>) -> bool {
        let real = real.and_then(|policy| self.real.get(policy));
        real.is_some() && real == shadow.and_then(|policy| self.shadow.get(policy))
    }
}
