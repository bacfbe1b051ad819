use std::fmt;

use portcullis_api::Problem;

use crate::member::{MemberKind, MemberName};

/// Maximum number of conflicts of one instance that are named; the others are counted.
pub const MAX_CONFLICTS: usize = 8;

/// A gateway or cluster that an instance selects and another one has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The gateway or cluster.
    pub member: MemberName,
    /// The instance that has it.
    pub owner: String,
}

/// The conflicts of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// The first ones by name, at most [`MAX_CONFLICTS`].
    pub named: Vec<Conflict>,
    /// Number of all.
    pub count: usize,
}

impl Conflicts {
    /// The named conflicts as problems of the selectors that select, and the number of the others.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let path = |conflict: &Conflict| match conflict.member.kind {
            MemberKind::UpstreamCluster => "spec.clustersSelector",
            MemberKind::Envoy | MemberKind::Gateway => "spec.gatewaysSelector",
        };
        let mut problems: Vec<Problem> =
            self.named.iter().map(|conflict| Problem::new(path(conflict), conflict.to_string())).collect();
        match self.count.saturating_sub(self.named.len()) {
            0 => {}
            more => problems.push(Problem::new("spec", format!("{more} more belong to other instances"))),
        }
        problems
    }

    pub(crate) fn add(&mut self, conflict: Conflict) {
        self.count += 1;
        if self.named.len() < MAX_CONFLICTS {
            self.named.push(conflict);
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} belongs to Instance {}", self.member, self.owner)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, conflict) in self.named.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{conflict}")?;
        }
        match self.count.saturating_sub(self.named.len()) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
