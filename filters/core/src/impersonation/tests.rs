use super::*;

fn read_lines(lines: &[(&str, &str)]) -> Result<Option<Impersonation>, Refusal> {
    let lines: Vec<(&[u8], &[u8])> = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    read(&lines)
}

/// Name, groups, and the parts as `resource[/subresource] namespace/name`.
fn summary(lines: &[(&str, &str)]) -> (String, Vec<String>, Vec<String>) {
    let Impersonation { target, parts } = read_lines(lines).unwrap().unwrap();
    let part =
        |part: &ResourceAttributes| format!("{}/{} {}/{}", part.resource, part.subresource, part.namespace, part.name);
    (target.name.clone(), target.groups.clone(), parts.iter().map(part).collect())
}

#[test]
fn targets_are_read_as_kube_apiserver_reads_them() {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let table = [
        (vec![("impersonate-user", "bob")], "bob", list(&["system:authenticated"]), list(&["users/ /bob"])),
        (
            vec![("impersonate-user", "bob"), ("impersonate-user", "eve"), ("impersonate-group", "g")],
            "bob",
            list(&["g", "system:authenticated"]),
            list(&["users/ /bob", "groups/ /g"]),
        ),
        (
            vec![("impersonate-user", "system:serviceaccount:ns:sa")],
            "system:serviceaccount:ns:sa",
            list(&["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]),
            list(&["serviceaccounts/ ns/sa"]),
        ),
        (
            vec![("impersonate-user", "system:serviceaccount:ns:sa"), ("impersonate-group", "g")],
            "system:serviceaccount:ns:sa",
            list(&["g", "system:authenticated"]),
            list(&["serviceaccounts/ ns/sa", "groups/ /g"]),
        ),
        (
            vec![("impersonate-user", "system:serviceaccount:NS:sa")],
            "system:serviceaccount:NS:sa",
            list(&["system:authenticated"]),
            list(&["users/ /system:serviceaccount:NS:sa"]),
        ),
        (
            vec![("impersonate-user", "system:anonymous")],
            "system:anonymous",
            list(&["system:unauthenticated"]),
            list(&["users/ /system:anonymous"]),
        ),
        (
            vec![("impersonate-user", "bob"), ("impersonate-group", "system:unauthenticated")],
            "bob",
            list(&["system:unauthenticated"]),
            list(&["users/ /bob", "groups/ /system:unauthenticated"]),
        ),
        (
            vec![("impersonate-user", "bob"), ("impersonate-extra-a%2fb", "x"), ("impersonate-extra-a%2fb", "y")],
            "bob",
            list(&["system:authenticated"]),
            list(&["users/ /bob", "userextras/a/b /x", "userextras/a/b /y"]),
        ),
        (
            vec![("impersonate-user", "bob"), ("impersonate-extra-50%", "x"), ("impersonate-uid", "1")],
            "bob",
            list(&["system:authenticated"]),
            list(&["users/ /bob", "userextras/50% /x", "uids/ /1"]),
        ),
    ];
    for (lines, name, groups, parts) in table {
        assert_eq!(summary(&lines), (name.to_owned(), groups, parts), "{lines:?}");
    }
}

#[test]
fn headers_without_a_value_ask_for_no_impersonation() {
    assert_eq!(read_lines(&[]), Ok(None));
    assert_eq!(read_lines(&[("impersonate-user", "")]), Ok(None));
    assert_eq!(read_lines(&[("impersonate-user", ""), ("impersonate-uid", "")]), Ok(None));
}

#[test]
fn impersonation_that_cannot_be_judged_is_refused() {
    let table: [(&[(&str, &str)], u16); 8] = [
        (&[("impersonate-group", "system:masters")], 400),
        (&[("impersonate-uid", "1")], 400),
        (&[("impersonate-extra-a", "b")], 400),
        (&[("impersonate-user", ""), ("impersonate-group", "g")], 400),
        (&[("impersonate-user", "bob"), ("impersonate-unheard-of", "x")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-extra-", "x")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-extra", "x")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-extra-%ff", "x")], 400),
    ];
    for (lines, code) in table {
        assert_eq!(read_lines(lines).unwrap_err().code, code, "{lines:?}");
    }
    let group = ("impersonate-group", "g");
    let mut many = vec![("impersonate-user", "bob")];
    many.extend([group; 63]);
    assert!(read_lines(&many).is_ok());
    many.push(group);
    assert_eq!(read_lines(&many).unwrap_err().code, 400);
}
