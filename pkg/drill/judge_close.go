package drill

import (
	"fmt"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// JudgeAct7 says whether the healthy webhook denies again, under Ignore, with the same policy.
func JudgeAct7(l Lab, seven Act7Facts, two Act2Facts, three Act3Facts, five Act5Facts, six Act6Facts) []verdict.Check {
	f := findings{hint: startOver}
	uid, err := PolicyUID(two.Policy)
	if err != nil {
		uid = ""
	}
	digest := ""
	if isDigest(seven.Recovery.IgnoreEvidenceSHA256) {
		digest = seven.Recovery.IgnoreEvidenceSHA256
	}
	f.fold("recovery", "as the act asks", seven.Recovery.Mode, recoveryChecks(seven.Recovery, uid, digest))
	f.sample("bad", seven.Bad, wanted{kindBad, l.Target, expectedFor(l, ignorePolicy), ExplicitDeny, StoredNo})
	f.uniqueNames(samplesOf(two, three), five.During.samples(), five.After.All,
		six.Before.All, six.During.samples(), six.After.All, []Sample{seven.Bad})
	f.existing(seven.Existing, three.Existing)
	f.that(seven.Existing.ReadUS > 0, "existing: read", "a time in the act", fmt.Sprint(seven.Existing.ReadUS))
	f.same("policy: same UID", uid, seven.Policy.UID)
	f.same("policy: failure policy", ignorePolicy, seven.Policy.FailurePolicy)
	f.fold("registration: effective", "an effective entry under Ignore", seven.Registration.Webhook, CheckRegistration(l, seven.Registration, ignorePolicy))
	f.fold("registration: as in act 6", "the entry of act 6", seven.Registration.Webhook, sameEntry(six.Registration.After, seven.Registration))
	return f.checks
}

// The evidence that report.json points at.
var linked = []int{5, 6, 7}

func linkName(act int) string { return fmt.Sprintf("%02d.json", act) }

// JudgeAct8 says whether the report is the right conclusion and points at three pieces of evidence.
// Whether the digests are those of the files is for whoever has them.
func JudgeAct8(_ Lab, eight Act8Facts) []verdict.Check {
	f := findings{hint: startOver}
	links := map[int]string{}
	for _, act := range linked {
		digest := eight.Links[linkName(act)]
		f.that(isDigest(digest), "link to "+linkName(act), "a SHA-256", digest)
		if isDigest(digest) {
			links[act] = digest
		}
	}
	f.that(len(eight.Links) == len(linked), "links", fmt.Sprintf("%d", len(linked)), fmt.Sprintf("%d", len(eight.Links)))
	f.add(reportChecks(eight.Report, links[5], links[6], links[7])...)
	return f.checks
}
