use super::world::{instance, member, of, settle_ready, settle_waiting, team};
use crate::{MemberName, Settlement, common_holder};

#[test]
fn targets_of_two_instances_are_refused_naming_both() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("y"))];
    let (one, other) = (MemberName::gateway("n/one"), MemberName::gateway("n/other"));
    let members = [member(one.clone(), "y"), member(other.clone(), "x")];
    let reversed = [instances[1].clone(), instances[0].clone()];
    let text = "its targets belong to several instances: Gateway n/other to Instance a, Gateway n/one to Instance b; \
                its limits would count in each: use one object for each";
    for instances in [&instances, &reversed] {
        let settled = settle_ready(&Settlement::default(), instances, &members);
        for targets in [[&one, &other], [&other, &one]] {
            assert_eq!(common_holder(&settled, targets).unwrap_err().to_string(), text);
        }
        assert_eq!(common_holder(&settled, [&one]), Ok(Some(&of("b"))));
        assert_eq!(common_holder(&settled, [&MemberName::gateway("n/unknown")]), Ok(None));
    }
    // Without instances everything has the same owner.
    let settled = settle_ready(&Settlement::default(), &[], &members);
    assert!(common_holder(&settled, [&one, &other]).is_ok());
}

#[test]
fn target_on_its_way_counts_as_its_next_owners() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("y"))];
    let (one, other) = (MemberName::gateway("n/one"), MemberName::gateway("n/other"));
    let members = |team: &str| [member(one.clone(), team), member(other.clone(), "y")];
    let before = settle_ready(&Settlement::default(), &instances, &members("x"));
    assert!(common_holder(&before, [&one, &other]).is_err());
    let waiting = settle_waiting(&before, &instances, &members("y"));
    assert_eq!(common_holder(&waiting, [&one, &other]), Ok(Some(&of("b"))));
}
