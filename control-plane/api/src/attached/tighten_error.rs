/// Why a policy would not only tighten. Its author has to change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TightenError {
    /// Its fields or those of the object cannot be read.
    #[error("the fields cannot be read")]
    Unreadable,
    /// It decides about users.
    #[error("identities are decided at the UpstreamCluster, in the control plane's own namespace alone")]
    Identity,
    /// A dispatch policy that does not deny.
    #[error("dispatchPolicies[{0}]: a policy that tightens can only deny (action: Deny)")]
    NoDenial(usize),
    /// A dispatch policy that takes the heartbeats of kubelets knowingly, or only reports.
    #[error("dispatchPolicies[{0}]: force and mode are for policies that decide")]
    Extended(usize),
    /// Queues, which could let in more.
    #[error("fairQueues are for policies that decide")]
    Queues,
    /// A limit that is not there.
    #[error("flowControlSchemas: {0} is not one of the UpstreamCluster's")]
    UnknownSchema(String),
    /// A limit that is none, or another one than that which is there.
    #[error("flowControlSchemas: {0} has to limit the same as that of the UpstreamCluster, from 1 on")]
    OtherLimit(String),
    /// A limit at a door that lowers none of requests in flight.
    #[error("flowControlSchemas: {0} has to be of maxRequestsInflight, from 1 on, without exempt and strategy")]
    NoLimit(String),
    /// A rate.
    #[error(
        "flowControlSchemas: {0} is a token bucket, and another rate would fill it: these are for policies that decide"
    )]
    Bucket(String),
}
