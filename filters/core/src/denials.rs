use portcullis_filter_config::{Denial, Policy};

/// The dispatch policies that deny, by their number. Empty if none does: thousands of streams may be judged by thousands of policies.
#[derive(Debug)]
pub(crate) struct Denials(Box<[Option<Denial>]>);

impl Denials {
    /// `knows_all_users`: whether each request has a user when its policy is looked for. Otherwise no policy may deny by the
    /// user: a client of whom nothing is known would match no such rule, and go on to the policies behind it.
    ///
    /// # Errors
    /// The number of a policy that would let strangers pass.
    pub(crate) fn compile(policies: &[Policy], knows_all_users: bool) -> Result<Self, usize> {
        let lets_pass =
            |policy: &Policy| policy.deny.is_some() && policy.rules.iter().any(|rule| rule.depends_on_user());
        match policies.iter().position(lets_pass).filter(|_| !knows_all_users) {
            Some(policy) => Err(policy),
            None if policies.iter().all(|policy| policy.deny.is_none()) => Ok(Denials(Box::default())),
            None => Ok(Denials(policies.iter().map(|policy| policy.deny.clone()).collect())),
        }
    }

    /// Whether no policy denies.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer to the requests of a policy, if it denies them.
    pub(crate) fn of(&self, policy: usize) -> Option<&Denial> {
        self.0.get(policy)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_deny_if_one_of_them_does() {
        let (open, denies) = (Policy::default(), Policy { deny: Some(Denial::default()), ..Policy::default() });
        for (policies, are_none) in
            [(vec![], true), (vec![open.clone(), open.clone()], true), (vec![open.clone(), denies.clone()], false)]
        {
            let denials = Denials::compile(&policies, true).unwrap();
            assert_eq!(denials.are_none(), are_none);
            assert_eq!((0..9).all(|policy| denials.of(policy).is_none()), are_none, "as the policies say");
        }
    }
}
