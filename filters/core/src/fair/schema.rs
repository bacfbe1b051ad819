use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use portcullis_filter_config::{FairQueueConfig, FlowDistinguisher};

use super::{FairQueue, FlowHash, Load, SeatRequest};
use crate::identity::UserInfo;
use crate::request_info::{RequestInfo, list_options};
use crate::seeded_hash::SeededHash;

/// Objects that one seat is worth, and the widest list: those of API Priority and Fairness.
const OBJECTS_PER_SEAT: u64 = 100;
const MOST_SEATS: u32 = 10;
const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const SERVICE_ACCOUNT: &[u8] = b"system:serviceaccount:";
/// Groups that say only how a user has authenticated.
const GENERAL_GROUPS: [&str; 3] = ["system:authenticated", "system:unauthenticated", "system:serviceaccounts"];
/// Users and groups whose leases in `kube-system` elect leaders.
const CONTROLLERS: [&str; 2] = ["system:kube-controller-manager", "system:kube-scheduler"];
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";

/// A fair queue of one configuration: what its requests share, and the flow of each.
#[derive(Debug)]
pub(crate) struct FairSchema {
    queue: Arc<FairQueue>,
    by: FlowDistinguisher,
    weights: HashMap<Box<[u8]>, u32, SeededHash>,
    hand_size: usize,
    widest: u32,
}

/// The parts of a request that decide its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowOf<'a> {
    /// The user for dispatch. `None` for a client whom only the upstream knows.
    pub(crate) user: Option<&'a UserInfo>,
    /// The request.
    pub(crate) info: &'a RequestInfo<'a>,
    /// The raw path with its query.
    pub(crate) path: &'a [u8],
}

/// The flow of a request in a fair queue, for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name: a user, a group, a namespace or a service account; empty for the rest.
    pub name: Vec<u8>,
    /// Seats that the request takes, with the flow's weight. `None` if it needs none and never waits.
    pub seats: Option<(u32, u32)>,
}

impl FairSchema {
    /// A fair queue of one configuration. The queues themselves keep their numbers ([`FairQueue::configure`]).
    pub(crate) fn new(config: &FairQueueConfig, queue: Arc<FairQueue>) -> Self {
        FairSchema {
            queue,
            by: config.by,
            weights: config.weights.iter().map(|flow| (flow.flow.as_bytes().into(), flow.weight.max(1))).collect(),
            hand_size: usize::try_from(config.hand_size).unwrap_or(1).max(1),
            // A list has at most 15 % of the seats.
            widest: config.max.saturating_mul(3).div_ceil(20).clamp(1, MOST_SEATS),
        }
    }

    /// The queues that its configurations share.
    pub(crate) fn queue(&self) -> &Arc<FairQueue> {
        &self.queue
    }

    /// The seat that a request needs. `None` if it needs none and never waits: sessions, administrators, heartbeats, reviews and
    /// probes.
    pub(crate) fn seat_of(&self, request: FlowOf<'_>) -> Option<SeatRequest> {
        // By the rule of kube-apiserver: a server may ignore the upgrade of any other request.
        let is_session = request.info.is_long_running() && *request.info.verb != *b"watch";
        if is_session || is_exempt(request) {
            return None;
        }
        let flow = self.flow_of(request);
        let weight = if self.weights.is_empty() { 1 } else { self.weights.get(&*flow).copied().unwrap_or(1) };
        let width = self.width_of(request);
        let flow = FlowHash::of(&self.queue.key, &flow);
        Some(SeatRequest {
            queue: Arc::clone(&self.queue),
            flow,
            hand_size: self.hand_size,
            load: Load { width, weight },
        })
    }

    /// The flow of a request, for tools.
    pub(crate) fn flow(&self, request: FlowOf<'_>) -> Flow {
        let seats = self.seat_of(request).map(|wanted| (wanted.load.width, wanted.load.weight));
        Flow { name: self.flow_of(request).into_owned(), seats }
    }

    /// The name of the request's flow.
    pub(crate) fn flow_of<'a>(&self, request: FlowOf<'a>) -> Cow<'a, [u8]> {
        let name = request.user.map_or(b"".as_slice(), |user| user.name.as_bytes());
        match self.by {
            FlowDistinguisher::User => name.into(),
            FlowDistinguisher::UserGroup => {
                let groups = request.user.map_or(&[][..], |user| &user.groups);
                let first = groups.iter().find(|group| !GENERAL_GROUPS.contains(&group.as_str()));
                first.map_or(name, |group| group.as_bytes()).into()
            }
            FlowDistinguisher::Namespace => request.info.namespace.into(),
            FlowDistinguisher::ServiceAccount => {
                if name.starts_with(SERVICE_ACCOUNT) {
                    name.into()
                } else {
                    Cow::default()
                }
            }
        }
    }

    /// A list takes as many seats as the objects that it asks for are worth.
    fn width_of(&self, FlowOf { info, path, .. }: FlowOf<'_>) -> u32 {
        match &*info.verb {
            b"list" if is_single(info, query_of(path)) => 1,
            b"list" => match ListSize::of(path) {
                ListSize::Limited(limit) => {
                    let seats = limit.div_ceil(OBJECTS_PER_SEAT).max(1);
                    u32::try_from(seats).unwrap_or(MOST_SEATS).min(self.widest)
                }
                ListSize::Whole => self.widest,
            },
            b"watch" if list_options::begins_with_all(query_of(path)) => self.widest,
            b"deletecollection" => self.widest,
            _ => 1,
        }
    }
}

/// Whether a list by name is read as one object. Without a namespace a server looks at all of a namespaced resource; kubelets ask for
/// their node in this way.
fn is_single(info: &RequestInfo<'_>, query: &[u8]) -> bool {
    let is_node = info.api_group.is_empty() && *info.resource == *b"nodes";
    !info.name.is_empty() && (is_node || !info.namespace.is_empty()) && list_options::reads_one(query)
}

/// Objects that a server looks at for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListSize {
    /// As many as the client asks for.
    Limited(u64),
    /// All.
    Whole,
}

impl ListSize {
    /// A selector is compared with every object, and a list from the watch cache (`resourceVersion=0`) has no limit.
    fn of(path: &[u8]) -> Self {
        list_options::limit(query_of(path)).map_or(ListSize::Whole, ListSize::Limited)
    }
}

fn query_of(path: &[u8]) -> &[u8] {
    path.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default()
}

/// Requests without which a cluster falls apart, or that others wait for.
fn is_exempt(FlowOf { user, info, .. }: FlowOf<'_>) -> bool {
    // Of a client whom only the upstream knows, the upstream alone can say that it is none of the group.
    let is_in = |group: &str| user.is_none_or(|user| user.groups.iter().any(|own| own == group));
    if user.is_some() && is_in(MASTERS) {
        return true;
    }
    if !info.is_resource {
        let is_below = |root: &[u8]| info.path.strip_prefix(root).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        return [b"/healthz".as_slice(), b"/livez", b"/readyz"].into_iter().any(is_below);
    }
    let is_single = matches!(&*info.verb, b"get" | b"create" | b"update" | b"patch");
    match (info.api_group, info.resource, info.namespace) {
        (b"coordination.k8s.io", b"leases", b"kube-node-lease") => is_single && is_in(NODES),
        (b"coordination.k8s.io", b"leases", b"kube-system") => {
            let is_controller = user.is_none_or(|user| CONTROLLERS.contains(&user.name.as_str()));
            is_single && (is_controller || is_in(SYSTEM_ACCOUNTS))
        }
        (b"", b"nodes", _) => is_single && matches!(info.subresource, b"" | b"status") && is_in(NODES),
        (b"authentication.k8s.io", b"tokenreviews", _)
        | (b"authorization.k8s.io", b"subjectaccessreviews" | b"localsubjectaccessreviews", _) => {
            *info.verb == *b"create"
        }
        _ => false,
    }
}
