//! A whole alternative to the access lists, policies and limits of a cluster, which only reports.
//!
//! It is compiled by the code that compiles the real ones, and asked once a request is decided. Its limits have counts of their own,
//! as if its decisions were the real ones: a request that it would refuse has no place in them, one that it would let in keeps its place
//! until the real request ends.

mod treatment;

use portcullis_filter_config as config;
use portcullis_filter_config::CountedRequests;

use crate::access::Access;
use crate::compile_error::CompileError;
use crate::denials::Denials;
use crate::flow_limit::{FlowLimit, LimitReached};
use crate::limit::InFlightPermit;
use crate::limit_places::limit_places;
use crate::moment::Moment;
use crate::observe::{Agreement, ShadowKey, ShadowOutcome};
use crate::policy::Policies;
use crate::refusal::Cause;
use crate::state_store::StateStore;
use treatment::Treatments;

/// The shadow of a cluster, compiled.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) access: Option<Access>,
    pub(crate) policies: Policies,
    /// Policies for clients whose credential was not reviewed, where there are such.
    pub(crate) unknown: Option<Policies>,
    denials: Denials,
    limits: Vec<(FlowLimit, CountedRequests)>,
    /// By policy.
    limit_of: Vec<PolicyLimit>,
    treatments: Treatments,
}

#[derive(Clone, Copy, Debug)]
enum PolicyLimit {
    None,
    /// By its place in [`Shadow::limits`].
    Flow(usize),
    /// A fair queue, in which no request waits here.
    Queue,
}

/// The real outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealOutcome {
    pub(crate) policy: Option<usize>,
    /// `None` of a request that goes on.
    pub(crate) refused: Option<Cause>,
    /// Whether it is not judged again. Otherwise it takes no place in a limit.
    pub(crate) is_final: bool,
}

/// The choice of the shadow by the origin and the user of a request, before its limits are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShadowChoice {
    /// Its access lists refuse the request.
    Refused,
    /// Its first policy that matches, if any does.
    Policy(Option<usize>),
}

/// The shadow's outcome of a request.
enum Verdict {
    Admitted(Option<InFlightPermit>),
    Denied,
    Limited,
}

impl Shadow {
    /// Compiles the shadow of a cluster. `knows_all_users`: whether each request has a user when its policy is looked for.
    ///
    /// # Errors
    /// Those of the same configuration without a shadow.
    pub(crate) fn compile(
        config: &config::ClusterConfig,
        real: &[config::Policy],
        knows_all_users: bool,
        store: &impl StateStore,
    ) -> Result<Option<Box<Self>>, CompileError> {
        let Some(shadow) = &config.shadow else { return Ok(None) };
        let policies = &shadow.policies;
        // Another name than the cluster's, so that nothing real counts there.
        let counted = format!("{}/shadow", config.counted_name());
        let limit = |schema: &config::FlowControlSchema| {
            let schema = config::FlowControlSchema { global: None, ..schema.clone() };
            (store.flow_limit(&counted, &schema), schema.counts)
        };
        let queues = config.fair_queues.iter().map(|queue| &*queue.name);
        let names = queues.clone().chain(shadow.flow_control_schemas.iter().map(|schema| &*schema.name));
        let limit_of = |place: Option<usize>| match place.map(|place| place.checked_sub(queues.len())) {
            None => PolicyLimit::None,
            Some(None) => PolicyLimit::Queue,
            Some(Some(place)) => PolicyLimit::Flow(place),
        };
        Ok(Some(Box::new(Shadow {
            access: Access::compile(&shadow.access)?,
            denials: Denials::compile(policies, knows_all_users).map_err(CompileError::Denial)?,
            unknown: (!knows_all_users).then(|| Policies::for_unknown(policies).for_shadow()),
            limits: shadow.flow_control_schemas.iter().map(limit).collect(),
            limit_of: limit_places(policies, names).into_iter().map(limit_of).collect(),
            treatments: Treatments::of(real, policies),
            policies: Policies::new(policies).for_shadow(),
        })))
    }

    /// Whether its access lists look at `User-Agent`.
    pub(crate) fn reads_user_agent(&self) -> bool {
        self.access.as_ref().is_some_and(Access::reads_user_agent)
    }

    /// Judges a request that was decided. `None` of one that was refused for a reason that a shadow has no part in.
    pub(crate) fn judge(
        &self,
        choice: ShadowChoice,
        real: RealOutcome,
        is_watch: bool,
        at: Moment,
    ) -> Option<ShadowOutcome> {
        let is_limited = match real.refused {
            None | Some(Cause::NoPolicy | Cause::DeniedByPolicy | Cause::DeniedByList) => false,
            Some(Cause::FlowControl | Cause::QueueFull | Cause::QueueTimeout) => true,
            Some(_) => return None,
        };
        let (policy, verdict) = match choice {
            ShadowChoice::Refused | ShadowChoice::Policy(None) => (None, Verdict::Denied),
            ShadowChoice::Policy(Some(policy)) if self.denials.of(policy).is_some() => (Some(policy), Verdict::Denied),
            ShadowChoice::Policy(Some(policy)) => (Some(policy), self.limit(policy, real, is_watch, at)),
        };
        let agreement = match (&verdict, real.refused.is_some()) {
            (Verdict::Admitted(_), true) => Agreement::WouldAllow,
            (Verdict::Admitted(_), false) if self.treatments.are_same(real.policy, policy) => Agreement::Same,
            (Verdict::Admitted(_), false) => Agreement::OtherPolicy,
            (Verdict::Denied, true) if !is_limited => Agreement::Same,
            (Verdict::Denied, _) => Agreement::WouldRefuse,
            (Verdict::Limited, _) if is_limited => Agreement::Same,
            (Verdict::Limited, _) => Agreement::WouldLimit,
        };
        let permit = if let Verdict::Admitted(permit) = verdict { permit } else { None };
        Some(ShadowOutcome { key: ShadowKey::new(real.policy, policy, agreement), permit })
    }

    fn limit(&self, policy: usize, real: RealOutcome, is_watch: bool, at: Moment) -> Verdict {
        let limit = match self.limit_of.get(policy) {
            // Of queues only the real ones are known.
            Some(PolicyLimit::Queue) if matches!(real.refused, Some(Cause::QueueFull | Cause::QueueTimeout)) => {
                return Verdict::Limited;
            }
            Some(PolicyLimit::Flow(at)) if real.is_final => self.limits.get(*at),
            Some(_) | None => None,
        };
        match limit.filter(|(_, counts)| counts.includes(is_watch)).map(|(limit, _)| limit.acquire(at.uptime)) {
            None => Verdict::Admitted(None),
            Some(Ok(permit)) => Verdict::Admitted(permit),
            Some(Err(LimitReached)) => Verdict::Limited,
        }
    }
}
