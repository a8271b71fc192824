package manifests

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Namespaces renders the target, the control and the helper namespace, in this order. The helper
// namespace belongs to no single lab, so it carries no lab label.
func Namespaces(lab, target, control string) ([]*corev1.Namespace, error) {
	forms, err := documents[*corev1.Namespace]("namespaces.yaml")
	if err != nil {
		return nil, err
	}
	if len(forms) != 2 {
		return nil, fmt.Errorf("decoding embedded namespaces.yaml: expected two documents, saw %d", len(forms))
	}
	drill, helper := forms[0], forms[1]
	drill.Labels[LabLabel] = lab
	drill.Name, helper.Name = target, HelperNamespace
	second := drill.DeepCopy()
	second.Name = control
	return []*corev1.Namespace{drill, second, helper}, nil
}

// Rights are the roles a learner needs. The drill's own role is given once for each of its
// namespaces.
type Rights struct {
	Cluster rbacv1.ClusterRole
	Backend rbacv1.Role // in the namespace of Kyverno's admission controller
	Drill   []rbacv1.Role
	Agent   rbacv1.Role // in the helper namespace
}

// LearnerRights renders the roles for one lab.
func LearnerRights(backend string, drill ...string) (Rights, error) {
	// A Role has every field of a ClusterRole that the file uses.
	roles, err := documents[rbacv1.Role]("rights.yaml")
	if err != nil {
		return Rights{}, err
	}
	if len(roles) != 4 {
		return Rights{}, fmt.Errorf("decoding embedded rights.yaml: expected four documents, saw %d", len(roles))
	}
	r := Rights{
		Cluster: rbacv1.ClusterRole{TypeMeta: roles[0].TypeMeta, ObjectMeta: roles[0].ObjectMeta, Rules: roles[0].Rules},
		Backend: roles[1],
		Agent:   roles[3],
	}
	r.Backend.Namespace, r.Agent.Namespace = backend, HelperNamespace
	for _, namespace := range drill {
		role := roles[2].DeepCopy()
		role.Namespace = namespace
		r.Drill = append(r.Drill, *role)
	}
	return r, nil
}

// RightsYAML is the same as one commented file, for documentation and for `kubectl apply`.
func RightsYAML() ([]byte, error) {
	data, err := files.ReadFile("yaml/rights.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading embedded rights.yaml: %w", err)
	}
	return data, nil
}
