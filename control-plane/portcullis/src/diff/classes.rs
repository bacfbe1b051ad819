//! The requests that there are: not every verb goes with every path, nor every group with every user.

use portcullis_filter_config::ProtectedIdentities;

use super::atoms::AtomSet;
use super::region::{Axis, Membership, Region};
use super::space::{
    ANONYMOUS, AUTHENTICATED, NAMESPACES, RequestKind, SUBRESOURCES_OF_NAMESPACES, Space, UNAUTHENTICATED,
    VERBS_IN_PATHS,
};

/// All requests of authenticated users, and with `anonymous` those of anonymous ones, as regions. Those of `protected` users and
/// groups are refused, and are not among them.
pub(super) fn classes(space: &Space, anonymous: bool, protected: &[&ProtectedIdentities]) -> Vec<Region> {
    let everything = Region::new(space.everything(), Vec::new());
    let paths: Vec<Region> = match space.kind {
        RequestKind::Path => everything.into_iter().collect(),
        RequestKind::Resource => everything.iter().flat_map(|all| resources(space, all)).collect(),
    };
    let Some(allowed) = allowed(space, protected) else { return Vec::new() };
    let users = users(space, anonymous).into_iter().filter_map(|user| user.intersection(&allowed));
    users.flat_map(|user| narrowed(&paths, &user)).collect()
}

/// The users that are not protected.
fn allowed(space: &Space, protected: &[&ProtectedIdentities]) -> Option<Region> {
    let mut axes = space.everything();
    let users = protected.iter().flat_map(|protected| &protected.users);
    let users = users.map(|user| match user.strip_suffix('*') {
        Some(start) => space.users.start_range(start),
        None => space.users.text_range(user),
    });
    if let Some(place) = axes.get_mut(Axis::User as usize) {
        *place = place.without(&AtomSet::of_ranges(users.collect()));
    }
    let groups = protected.iter().flat_map(|protected| &protected.groups).map(|group| space.groups.text_range(group));
    let groups = groups.filter(|(group, end)| group < end).map(|(group, _)| (group, false));
    Region::new(axes, groups.collect())
}

fn narrowed(regions: &[Region], by: &Region) -> Vec<Region> {
    regions.iter().filter_map(|region| region.intersection(by)).collect()
}

fn users(space: &Space, anonymous: bool) -> Vec<Region> {
    let atom = |text: &str| {
        let (start, end) = space.users.text_range(text);
        AtomSet::range(start, end)
    };
    let group = |text: &str| space.groups.text_range(text).0;
    let (authenticated, unauthenticated) = (group(AUTHENTICATED), group(UNAUTHENTICATED));
    let of = |users: AtomSet, groups: Vec<Membership>| {
        let mut axes = space.everything();
        if let Some(place) = axes.get_mut(Axis::User as usize) {
            *place = users;
        }
        Region::new(axes, groups)
    };
    let known = of(space.users.all().without(&atom(ANONYMOUS)), vec![(authenticated, true), (unauthenticated, false)]);
    let no_others = || {
        let all = space.groups.all();
        let all = all.ranges().iter().flat_map(|(start, end)| *start..*end);
        all.map(|group| (group, group == unauthenticated)).collect()
    };
    let stranger = anonymous.then(|| of(atom(ANONYMOUS), no_others())).flatten();
    known.into_iter().chain(stranger).collect()
}

/// By the verb, whether there is a name and a subresource; by the resource, whether there is a namespace.
fn resources(space: &Space, all: &Region) -> Vec<Region> {
    let named = |vocabulary: &super::vocabulary::Vocabulary, is_named: bool| {
        let (start, end) = vocabulary.text_range("");
        let nothing = AtomSet::range(start, end);
        if is_named { vocabulary.all().without(&nothing) } else { nothing }
    };
    let (with_name, without_name) = (named(&space.names, true), named(&space.names, false));
    let (inside, outside) = (named(&space.namespaces, true), named(&space.namespaces, false));
    let verbs = |verbs: &[&str]| AtomSet::of_ranges(verbs.iter().map(|verb| space.verbs.text_range(verb)).collect());
    let plain = space.resources.which(|_, subresource| subresource.is_empty());
    let any = space.resources.all();
    let every_name = space.names.all();
    let writes = ["create", "update", "patch", ""];
    let by_verb = [
        (verbs(&["get", "delete"]), &with_name, &any),
        (verbs(&["list", "watch"]), &every_name, &plain),
        (verbs(&["watch"]), &with_name, &any),
        (verbs(&["deletecollection"]), &without_name, &plain),
        (verbs(&writes), &without_name, &plain),
        (verbs(&writes), &with_name, &any),
        (verbs(&["proxy"]), &every_name, &plain),
    ];
    let is_of = |words: &'static [&'static str]| space.resources.which(move |resource, _| words.contains(&resource));
    let (of_namespaces, of_verbs) = (is_of(&[NAMESPACES]), is_of(&VERBS_IN_PATHS));
    let of_subresources = is_of(&SUBRESOURCES_OF_NAMESPACES);
    let ordinary = any.without(&of_namespaces).without(&of_verbs).without(&of_subresources);
    let by_resource = [
        (ordinary, space.namespaces.all(), None),
        (of_namespaces.clone(), inside.clone(), None),
        (of_namespaces.clone(), outside.clone(), Some((&without_name, space.verbs.all()))),
        (of_namespaces.intersection(&plain), outside.clone(), Some((&every_name, verbs(&["list", "watch"])))),
        (of_subresources, outside, None),
        (of_verbs, inside, None),
    ];
    let set = |region: &Region, parts: &[(Axis, &AtomSet)]| {
        let mut region = region.clone();
        for (axis, atoms) in parts {
            region.set(*axis, region.axis(*axis).intersection(atoms));
        }
        Axis::ALL.into_iter().all(|axis| !region.axis(axis).is_empty()).then_some(region)
    };
    let mut classes = Vec::new();
    for (verb, name, resource) in &by_verb {
        let parts = [(Axis::Verb, verb), (Axis::Name, *name), (Axis::Resource, *resource)];
        let Some(region) = set(all, &parts) else { continue };
        for (resource, namespace, more) in &by_resource {
            let parts = [(Axis::Resource, resource), (Axis::Namespace, namespace)];
            let narrow = set(&region, &parts);
            let narrow = match more {
                Some((name, verb)) => narrow.and_then(|one| set(&one, &[(Axis::Name, *name), (Axis::Verb, verb)])),
                None => narrow,
            };
            classes.extend(narrow);
        }
    }
    classes
}
