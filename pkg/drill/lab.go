package drill

// Lab holds every name by which one drill is known in the cluster, on disk and in evidence. The
// procedures and rules take it as an argument, so that a second drill is a second value.
type Lab struct {
	// Name is the value of --lab and of the evidence field "lab".
	Name string
	// Dir is the folder below the lab home.
	Dir string
	// Target is the namespace the policy selects.
	Target string
	// Control is the namespace the policy must not select.
	Control string
	// Policy is the name of the ValidatingPolicy.
	Policy string
	// DenyMessage is the policy's message, by which our rule is told from any other.
	DenyMessage string
	// Action is the required action of the plan in act 4.
	Action string
}

// Freeze is the drill of spec section 1: the webhook stays registered and stops answering.
func Freeze() Lab {
	return Lab{
		Name:        "freeze",
		Dir:         "kca-webhook",
		Target:      "kca-webhook-target",
		Control:     "kca-webhook-control",
		Policy:      "kca-webhook-label",
		DenyMessage: "KCA_ENVIRONMENT_REQUIRED",
		Action:      "freeze-one-controller-process",
	}
}

// The namespace that both drills share for the node agent and the freeze journal, and the numbers
// that the drill fixes.
const (
	HelperNamespace = "kube-lab-system"
	// HookTimeoutSeconds is the policy's webhook timeout.
	HookTimeoutSeconds = 3
	// ResumeAfterSeconds is the freeze cap of the plan in act 4.
	ResumeAfterSeconds = 20
	// Acts is how many acts, and so steps, the drill has.
	Acts = 8
)
