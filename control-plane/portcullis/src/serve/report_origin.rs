use portcullis_xds::{GatewayReport, Membership, node_owner};

/// The gateway that a report is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportOrigin<'a> {
    /// The node's name.
    pub(super) name: &'a str,
    /// The instances that its certificate names.
    pub(super) membership: &'a Membership,
}

impl<'a> ReportOrigin<'a> {
    /// That of a report.
    pub(super) fn of(report: &'a GatewayReport) -> Self {
        Self { name: &report.node, membership: &report.membership }
    }

    /// The owner of its node; `None` if it belongs to no instance.
    pub(super) fn owner(self) -> Option<&'a str> {
        node_owner(self.name)
    }

    /// A gateway of no instance.
    #[cfg(test)]
    pub(super) fn free(name: &'a str) -> Self {
        Self { name, membership: &Membership::Free }
    }
}
